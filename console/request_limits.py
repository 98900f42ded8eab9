"""Limits on a request before its body is read: the caller, the size, the time and the concurrency.

FastAPI reads a whole body before it identifies the caller. Here, a caller without a valid key is refused at once. For
other callers, at most the largest body of any route is read, within a time limit. Each key has a limited number of
concurrent requests and streams. Large bodies, which take many times their size once they are parsed, are read by few
requests at a time. Plain ASGI, like `middleware`.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from fastapi import HTTPException, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from haltline.console.access.keys import Who
from haltline.console.context import WHO

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
WITHIN_S: Final = 30.0
"""Seconds from the headers to the end of the body."""
LARGE_BYTES: Final = 256 * 1024
MAX_LARGE: Final = 4
"""Large bodies that are read at the same time, one of each key."""
_SIGN_IN: Final = "/sign-in"
_STREAM: Final = "/api/v1/events"
_KEYED: Final = "/api/"
_CLOSE: Final = {"Connection": "close"}
"""A body that was not read is not waited for."""


class RequestLimits:
    """The limits of every route."""

    def __init__(
        self,
        app: ASGIApp,
        who: Callable[[Request], Who],
        *,
        requests: int,
        streams: int,
        max_body_bytes: int = MAX_BODY_BYTES,
        within_s: float = WITHIN_S,
    ) -> None:
        """`who` raises HTTPException if the caller is unknown or over its rate limit."""
        self._app = app
        self._admitted = who
        self._most = {False: requests, True: streams}
        self._max_body_bytes = max_body_bytes
        self._within_s = within_s
        self._at_once: Counter[tuple[str, bool]] = Counter()
        self._large = asyncio.Semaphore(MAX_LARGE)
        self._large_of: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope)
        try:
            who = self._who(request, comes=_comes(request))
            slots = (self._large_of["" if who is None else who.name], self._large)
            body = _Body(receive, slots, self._max_body_bytes, self._within_s)
            async with self._counted(who, request.url.path):
                try:
                    await self._app(scope, body.receive if _comes(request) else receive, send)
                finally:
                    body.release()
        except _Refused as refused:
            answer = JSONResponse({"detail": refused.detail}, refused.status_code, refused.headers)
            await answer(scope, receive, send)
        return None

    def _who(self, request: Request, *, comes: bool) -> Who | None:
        """The caller, if it must be known at this point. Raises _Refused."""
        path = request.url.path
        if not path.startswith(_KEYED) and not (comes and path != _SIGN_IN):
            return None
        try:
            who = request.scope[WHO] = self._admitted(request)
        except HTTPException as refused:
            if comes:
                raise _Refused(refused.status_code, refused.detail, {**(refused.headers or {}), **_CLOSE}) from None
            request.scope[WHO] = refused  # the route reports it, if there is one
            return None
        if comes:
            self._require_readable(request)
        return who

    def _require_readable(self, request: Request) -> None:
        """Check the headers only. Raises _Refused."""
        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            raise _Refused(415, f"Content-Encoding: expected none, got {encoding:.40}", _CLOSE)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 15 or int(length) > self._max_body_bytes):
            raise _Refused(413, _too_long(self._max_body_bytes), _CLOSE)

    @asynccontextmanager
    async def _counted(self, who: Who | None, path: str) -> AsyncIterator[None]:
        if who is None:
            yield
            return
        place = who.name, path == _STREAM
        most = self._most[place[1]]
        if self._at_once[place] >= most:
            what = "streams" if place[1] else "requests"
            raise _Refused(
                429, f"{who.name}: expected at most {most} {what} at a time, got one more", {"Retry-After": "1"}
            )
        self._at_once[place] += 1
        try:
            yield
        finally:
            self._at_once[place] -= 1
            if not self._at_once[place]:
                del self._at_once[place]


class _Refused(HTTPException):
    """A refusal by this middleware. Raised while a route reads the body, FastAPI handles it."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str]) -> None:
        super().__init__(status, detail, dict(headers))


class _Body:
    """One body, and how much of it has been read."""

    def __init__(self, receive: Receive, slots: Sequence[asyncio.Semaphore], most: int, within_s: float) -> None:
        self._receive = receive
        self._slots = slots
        self._most = most
        self._until_s = asyncio.get_running_loop().time() + within_s
        self._within_s = within_s
        self._bytes = 0
        self._whole = False
        self._held: list[asyncio.Semaphore] = []

    async def receive(self) -> Message:
        """The next message. Raises HTTPException if the body is too large or too slow."""
        if self._whole:  # the next message is the client's disconnect
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until_s):
                message = await self._receive()
                self._bytes += len(message.get("body", b""))
                if self._bytes > self._most:
                    raise _Refused(413, _too_long(self._most), _CLOSE)
                for slot in self._slots[len(self._held) :] if self._bytes > LARGE_BYTES else ():
                    await slot.acquire()
                    self._held.append(slot)
        except TimeoutError:
            raise _Refused(408, f"the body: expected all of it within {self._within_s:g} s, got less", _CLOSE) from None
        self._whole = not message.get("more_body", False)
        return message

    def release(self) -> None:
        """Release the slot of a large body."""
        while self._held:
            self._held.pop().release()


def _comes(request: Request) -> bool:
    """Return whether the request has a body."""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _too_long(most: int) -> str:
    return f"the body: expected at most {most} bytes, got more"
