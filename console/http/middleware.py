"""What is around every route: headers of each answer, and its count.

Plain ASGI: a layer of Starlette's `BaseHTTPMiddleware` costs a request more than most routes do.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FAILED: Final = 500


class ResponseHeadersMiddleware:
    """Sets headers that the answer does not have yet; `only_tls` where it goes out encrypted."""

    def __init__(self, app: ASGIApp, always: Mapping[str, str], only_tls: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._always = always
        self._with_tls = {**always, **(only_tls or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        added = self._with_tls if scope["scheme"] == "https" else self._always

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers.setdefault(name, value)
            await send(message)

        return await self._app(scope, receive, sent)


class CompressPathsMiddleware:
    """Compresses answers of paths that begin so, and no others.

    An answer that holds both a secret and what an agent wrote could tell the secret by its compressed length (BREACH):
    only files of the console's own are named here.
    """

    def __init__(self, app: ASGIApp, paths: tuple[str, ...]) -> None:
        self._app = app
        self._paths = paths
        self._compressed = GZipMiddleware(app, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        named = scope["type"] == "http" and scope["path"].startswith(self._paths)
        await (self._compressed if named else self._app)(scope, receive, send)


class RequestMetricsMiddleware:
    """Tells the path of the route (`none`: there is none), the status and the seconds until the answer began.

    A request that a failure ends before is one of status 500.
    """

    def __init__(self, app: ASGIApp, count: Callable[[str, int, float], None]) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, answered = time.perf_counter(), False

        def count(status: int) -> None:
            # Not the path itself: it holds names of sessions, which have no bound.
            route = getattr(scope.get("route"), "path", "none")
            self._count(route, status, time.perf_counter() - began)

        async def sent(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                count(message["status"])
            await send(message)

        try:
            return await self._app(scope, receive, sent)
        except Exception:
            if not answered:
                count(FAILED)
            raise
