"""Serves the pages and their files, signs people in and out, and sets headers for browsers."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from haltline.console import live
from haltline.console.access.browser_sessions import (
    BrowserSessions,
    clear_cookie,
    local_path,
    require_same_origin,
    session_of,
    start_session,
    token_of,
)
from haltline.console.access.keys import May
from haltline.console.context import ContextDep
from haltline.console.http.middleware import CompressPathsMiddleware, ResponseHeadersMiddleware
from haltline.console.pages.errors import install_errors
from haltline.console.routes import audits, fleet, labels, policy_text
from haltline.console.routes.fleet import LagWatch
from haltline.streams.notify.links import OPENS_AT, BadLink

_FOLDER: Final = Path(__file__).parent
_PROVIDER: Final = "<!-- provider -->"
_PROVIDER_LINK: Final = (
    '<p class="or">or</p><a id="provider" class="button" href="/sign-in/oidc">Sign in with your organization</a>'
)
_MAX_BYTES: Final = 8192
"""Maximum size of the sign-in form in bytes."""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_COMPRESSED: Final = ("/static/", "/openapi.json", "/api/v1/policies/schema")
_ONLY_TLS: Final = {"Strict-Transport-Security": f"max-age={365 * 86_400}"}
PAGES: Final = tuple(sorted(module.stem for module in (_FOLDER / "static" / "views").glob("*.js")))
"""The names of the pages; each is drawn by its module in `static/views`."""

router = APIRouter(include_in_schema=False)


def install(app: FastAPI, refusals: Mapping[int | str, dict[str, Any]]) -> None:
    """Add the pages and their routes; `refusals` are the error responses of every route."""
    app.state.sessions = BrowserSessions()
    app.state.lag = LagWatch()
    for routes in (audits, live, fleet, labels, policy_text):
        app.include_router(routes.router, responses=dict(refusals))
    for name in PAGES:
        router_path = f"/{name}"
        app.add_api_route(router_path, page, include_in_schema=False)
        app.add_api_route(f"{router_path}/{{rest:path}}", page, include_in_schema=False)
    app.include_router(router)
    install_errors(app)
    app.mount("/static", _Files(directory=_FOLDER / "static"), name="static")
    app.add_middleware(CompressPathsMiddleware, paths=_COMPRESSED)
    app.add_middleware(ResponseHeadersMiddleware, always=_HEADERS, only_tls=_ONLY_TLS)


class _Files(StaticFiles):
    """Static files, which a browser caches and revalidates on each request."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def page(request: Request) -> Response:
    """The HTML of every page; without a session, a redirect to the sign-in page."""
    if session_of(request) is None:
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/sign-in?next={quote(path, safe='/')}", 303)
    return FileResponse(_FOLDER / "page.html")


@router.get("/")
def first() -> Response:
    """Redirect to the fleet page."""
    return RedirectResponse("/fleet", 303)


@router.get("/favicon.ico")
def icon() -> Response:
    """The icon at the path that browsers request automatically."""
    return RedirectResponse("/static/icon.svg", 308)


@router.get("/sign-in")
def sign_in_page(request: Request, here: ContextDep) -> Response:
    """The page for signing in with a key or the OpenID provider."""
    if session_of(request) is not None:
        # With an empty fragment: otherwise a browser would keep that of the sign-in link.
        return RedirectResponse(f"{local_path(request.query_params.get('next', ''))}#", 303)
    document = (_FOLDER / "sign-in.html").read_text(encoding="utf-8")
    return HTMLResponse(document.replace(_PROVIDER, _PROVIDER_LINK if here.settings.provider is not None else ""))


@router.get(OPENS_AT)
def open_approval(here: ContextDep, token: str = "") -> Response:
    """Redirect from a notification's link to the page of the approval, which requires sign-in; it answers nothing."""
    if here.settings.link_key is None:
        raise HTTPException(404, "link: expected a console that has the key of links (--link-key), got one without")
    try:
        request_id = here.settings.link_key.request_of(token)
    except BadLink as bad:
        raise HTTPException(403, f"link: {bad}; the approvals that wait are at /approvals") from None
    # Not a redirect: a browser does not send a strict cookie in a redirect that another site, such as a chat, started.
    page = escape(f"/approvals/{quote(request_id, safe='')}")
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>haltline</title>'
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">'
        f'<meta http-equiv="refresh" content="0;url={page}"><a href="{page}">Open the approval request</a></html>'
    )


@router.post("/sign-in")
async def sign_in(request: Request, here: ContextDep) -> Response:
    """Start a session for the holder of a key, or of the link's token; a form, so that keys work without scripts."""
    require_same_origin(request)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BYTES:
            raise HTTPException(413, f"sign-in: expected at most {_MAX_BYTES} bytes, got more")
    form = parse_qs(body.decode(errors="replace"))
    next_page = form.get("next", [""])[-1]
    token, link = form.get("token", [""])[-1], here.settings.sign_in_link
    if token:
        who = None if link is None else link.take(token)
    else:
        who = here.settings.keys.who(form.get("key", [""])[-1].strip())
    if who is None or not who.may("look"):
        problem = "role" if who is not None else "link" if token else "key"
        return RedirectResponse(f"/sign-in?problem={problem}&next={quote(local_path(next_page), safe='/')}", 303)
    response = RedirectResponse(local_path(next_page), 303)
    start_session(request, response, who)
    return response


@router.post("/sign-out")
def sign_out(request: Request) -> Response:
    """End the session."""
    session_of(request)  # only from our own pages
    response = Response(status_code=204)
    if (token := token_of(request)) is not None:
        sessions: BrowserSessions = request.app.state.sessions
        sessions.end(token)
    clear_cookie(request, response)
    return response


@router.get("/signed-in")
def signed_in(request: Request) -> JSONResponse:
    """The signed-in user, the permissions, and the CSRF token for requests that change something."""
    session = session_of(request)
    if session is None:
        raise HTTPException(401, "cookie: expected one of a session, got none")
    may = [act for act in get_args(May) if session.who.may(act)]
    return JSONResponse({"name": session.who.name, "role": session.who.role.value, "may": may, "csrf": session.csrf})
