"""Error responses: pages for browsers, JSON for all other clients."""

from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from haltline.console.access.browser_sessions import session_of

_FOLDER: Final = Path(__file__).parent
_TITLE: Final = "<title>haltline</title>"
_PROGRAMS: Final = ("/api/", "/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/signed-in")
"""Paths for programs, whose errors are JSON, whatever the client accepts."""
_PAGES: Final = {
    403: ("Not allowed", "This link or request is not valid here."),
    404: ("Page not found", "There is no page at this address."),
    500: ("Something went wrong", "The console failed to answer. Its log has the reason."),
    503: ("Not available now", "The broker or the database does not answer. Try again in a moment."),
}


def install_errors(app: FastAPI) -> None:
    """Add the handlers of refusals and failures."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _failed)


async def refused(request: Request, failure: HTTPException) -> Response:
    """A refusal as a page or as JSON, as the client accepts."""
    if not _is_browser(request) or failure.status_code < 400:
        return await http_exception_handler(request, failure)
    return _page(request, failure.status_code, str(failure.detail), dict(failure.headers or {}))


async def _refused(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    return await refused(request, failure)


async def _failed(request: Request, _: Exception) -> Response:
    """A failure; the server itself logs it after this response."""
    if _is_browser(request):
        return _page(request, 500, "", {})
    return JSONResponse({"detail": "the console failed to answer; its log has the reason"}, 500)


def _is_browser(request: Request) -> bool:
    wants_html = "text/html" in request.headers.get("accept", "")
    return wants_html and not request.url.path.startswith(_PROGRAMS)


def _page(request: Request, status: int, detail: str, headers: dict[str, str]) -> Response:
    """The error page, with the console's frame if signed in."""
    title, text = _PAGES.get(status, (HTTPStatus(status).phrase, ""))
    try:
        framed = session_of(request) is not None
    except HTTPException:
        framed = False
    shown = detail if detail and detail != HTTPStatus(status).phrase else ""
    places = (
        (("/fleet", "Fleet"), ("/approvals", "Approvals"), ("/search", "Search")) if framed else (("/", "Sign in"),)
    )
    links = "".join(f'<a class="button" href="{place}">{name}</a>' for place, name in places)
    reason = f'<p class="dim">{escape(shown)}</p>' if shown else ""
    section = (
        f'<main id="main" tabindex="-1" data-status="{status}"><section class="panel failure"><h1>{escape(title)}</h1>'
        f'<p>{escape(text)}</p>{reason}<p class="row">{links}</p></section></main>'
    )
    document = (_FOLDER / ("page.html" if framed else "error.html")).read_text(encoding="utf-8")
    before, _, rest = document.partition("<main ")
    document = f"{before}{section}{rest.partition('</main>')[2]}"
    document = document.replace(_TITLE, f"<title>{escape(title)} - haltline</title>")
    return HTMLResponse(document, status, headers)
