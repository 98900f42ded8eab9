"""The middleware of every route, each layer alone."""

from collections.abc import Awaitable, Callable

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from haltline.console.http.middleware import RequestMetricsMiddleware


def answering(answer: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (await answer(Request(scope)))(scope, receive, send)

    return app


async def well(_: Request) -> Response:
    return JSONResponse({}, 201, {"Cache-Control": "no-cache"})


async def failing(_: Request) -> Response:
    raise LookupError("broken")


def test_every_request_is_counted_once_also_one_that_a_failure_ends() -> None:
    counted: list[tuple[str, int]] = []

    def count(route: str, status: int, _took_s: float) -> None:
        counted.append((route, status))

    assert TestClient(RequestMetricsMiddleware(answering(well), count)).get("/").status_code == 201
    with pytest.raises(LookupError, match="broken"):
        TestClient(RequestMetricsMiddleware(answering(failing), count)).get("/")
    assert counted == [("none", 201), ("none", 500)]
