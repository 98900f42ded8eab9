"""Middleware of all routes: response headers, compression and request metrics.

Plain ASGI: Starlette's `BaseHTTPMiddleware` costs more per request than most routes.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FAILED: Final = 500


class ResponseHeadersMiddleware:
    """Sets headers that the response does not have yet; `only_tls` on encrypted connections only."""

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
    """Compresses responses of paths with these prefixes only.

    A response that contains both a secret and an agent's text could leak the secret by its compressed length (BREACH),
    so only the console's own files are listed here.
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
    """Records the route's path (`none`: no route), the status and the seconds until the response began.

    A request that fails before its response counts as status 500.
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
            # Not the path itself: it contains session ids, whose number is unbounded.
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
