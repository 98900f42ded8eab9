"""The middleware of every route, each layer alone."""

from collections.abc import Awaitable, Callable

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from haltline.console.http.middleware import RequestMetricsMiddleware, ResponseHeadersMiddleware
from tests.builders import cases


def answering(answer: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (await answer(Request(scope)))(scope, receive, send)

    return app


async def well(_: Request) -> Response:
    return JSONResponse({}, 201, {"Cache-Control": "no-cache"})


async def failing(_: Request) -> Response:
    raise LookupError("broken")


@cases("base, strict", {"in the clear": ("http://x", None), "over TLS": ("https://x", "max-age=1")})
def test_headers_that_an_answer_has_stay_and_the_others_are_set(base: str, strict: str | None) -> None:
    app = ResponseHeadersMiddleware(
        answering(well), {"Cache-Control": "no-store", "X-A": "a"}, {"Strict-Transport-Security": "max-age=1"}
    )
    headers = TestClient(app, base_url=base).get("/").headers
    assert (headers["Cache-Control"], headers["X-A"]) == ("no-cache", "a")
    assert headers.get("Strict-Transport-Security") == strict


def test_every_request_is_counted_once_also_one_that_a_failure_ends() -> None:
    counted: list[tuple[str, int]] = []

    def count(route: str, status: int, _took_s: float) -> None:
        counted.append((route, status))

    assert TestClient(RequestMetricsMiddleware(answering(well), count)).get("/").status_code == 201
    with pytest.raises(LookupError, match="broken"):
        TestClient(RequestMetricsMiddleware(answering(failing), count)).get("/")
    assert counted == [("none", 201), ("none", 500)]
