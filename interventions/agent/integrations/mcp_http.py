"""A guard for an MCP server over HTTP: the transport "streamable HTTP".

It is a reverse proxy that needs no SDK. Sessions, protocol versions, authorization and the resumption of streams
(`Last-Event-ID`) stay between the client and its server. Only calls of tools and their results are read, in JSON bodies
and in event streams; everything else passes through unchanged.

Each MCP session is a session of haltline, unless one is given for all of them. Its name is a digest, as the id of an
MCP session is enough to take it over. Requests without one (protocol 2026-07-28 has none) belong to the settings'
session. Needs aiohttp (`pip install 'haltline[mcp]'`).
"""

import asyncio
import contextlib
import threading
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, web
from multidict import CIMultiDict
from yarl import URL

from haltline.interventions.agent.integrations.mcp_calls import AnySession, Calls, Message, Tools, failed, unreadable
from haltline.interventions.agent.producers.any_json import parsed, written
from haltline.schemas import expressions as re

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
SESSION: Final = "Mcp-Session-Id"
_EVENTS: Final = "text/event-stream"
_JSON: Final = "application/json"
_CONNECT_S: Final = 30.0
_END_OF_EVENT: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Valid for this connection only (RFC 9110, 7.6.1), or no longer valid after the body was read.
_NOT_PASSED_ON: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
     "upgrade", "host", "content-length", "content-encoding", "accept-encoding", "expect"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of checking a body: the part for the server (None: nothing), and the responses given already."""

    to_server: bytes | None
    refusals: list[Message] = field(default_factory=list)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    """The ids of the calls that go to the server."""
    is_list: bool = False


class HttpProxy:
    """A proxy between any number of clients and one server."""

    def __init__(
        self,
        session_of: Callable[[str | None], AnySession],
        url: str,
        *,
        prefix: str = "",
        one_session: bool = False,
        headers: Mapping[str, str] | None = None,
        hosts: frozenset[str] = HERE,
        max_sessions: int = 200,
    ) -> None:
        """`session_of` makes the session of an id; None: that of requests without an MCP session.

        `headers` are added to each request to the server. Raises ValueError for a URL that is not HTTP.
        """
        self._url = URL(url)
        if self._url.scheme not in {"http", "https"} or not self._url.host:
            raise ValueError(f"--url: expected http://HOST... or https://HOST..., got {url!r:.200}")
        self._session_of = session_of
        self._prefix = prefix
        self._one_session = one_session
        self._headers = dict(headers or {})
        self._hosts = hosts
        self._max_sessions = max_sessions
        self._tools = Tools()
        self._shared: AnySession | None = None
        self._sessions: OrderedDict[str, Calls] = OrderedDict()
        self._http: ClientSession

    @property
    def path(self) -> str:
        """The path of the proxy: the same as the server's."""
        return self._url.raw_path or "/"

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for method, handler in (("POST", self._post), ("GET", self._get), ("DELETE", self._delete)):
            app.router.add_route(method, self.path, handler)
        app.router.add_route("*", "/{path:.*}", self._elsewhere)
        app.cleanup_ctx.append(self._connected)
        return app

    async def _connected(self, _: web.Application) -> AsyncIterator[None]:
        timeout = ClientTimeout(total=None, sock_connect=_CONNECT_S)
        async with ClientSession(cookie_jar=DummyCookieJar(), timeout=timeout) as self._http:
            yield
            guarded = {id(calls.session): calls.session for calls in self._sessions.values()}
            if self._shared is not None:
                guarded[id(self._shared)] = self._shared
            self._sessions.clear()
            await asyncio.gather(*(session.end_async() for session in guarded.values()))

    async def _post(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        try:
            body = parsed(await request.read())
        except (ValueError, web.RequestPayloadError) as error:
            return _json(unreadable(str(error)), 400)
        calls = self._calls(request)
        has_session = SESSION in request.headers
        try:
            batch = await _checked(calls, body)
            if batch.to_server is None:
                if not batch.refusals:  # only messages without a response
                    return web.Response(status=202)
                return _json(batch.refusals if batch.is_list else batch.refusals[0], 200)
            return await self._passed_on(request, calls, batch)
        finally:
            if not has_session:  # the client cannot request the rest
                calls.abandon()

    async def _get(self, request: web.Request) -> web.StreamResponse:
        """Pass on a stream of the server's own messages, or of messages that a client missed."""
        self._admit(request)
        return await self._passed_on(request, self._calls(request), Batch(None))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        """End a session."""
        self._admit(request)
        calls = self._calls(request)
        response = await self._passed_on(request, calls, Batch(None))
        if response.status < 300:
            self._end(self._sessions.pop(request.headers.get(SESSION, ""), None))
        return response

    async def _elsewhere(self, request: web.Request) -> web.Response:
        why = f"expected POST, GET or DELETE {self.path}, got {request.method} {request.path}"
        return _json(failed(None, why), 404 if request.path != self.path else 405)

    def _admit(self, request: web.Request) -> None:
        """Reject requests of web pages in a local browser, also those that address this machine by another name."""
        origin = request.headers.get("Origin")
        if origin is not None and _host_of(origin) not in self._hosts:
            raise web.HTTPForbidden(text=f"Origin: expected one of {sorted(self._hosts)}, got {origin!r:.200}")
        if self._hosts == HERE and _host_of(f"//{request.host}") not in HERE:
            raise web.HTTPForbidden(text=f"Host: expected one of {sorted(HERE)}, got {request.host!r:.200}")

    def _calls(self, request: web.Request) -> Calls:
        named = request.headers.get(SESSION)
        if named is None:
            return Calls(self._own_desk(), self._tools, prefix=self._prefix, ids=uuid.uuid4().hex)
        calls = self._sessions.get(named)
        if calls is None:
            digest = blake2b(named.encode(errors="replace"), digest_size=16).hexdigest()
            session = self._own_desk() if self._one_session else self._session_of(f"mcp-{digest}")
            calls = Calls(session, self._tools, prefix=self._prefix, ids=f"mcp-{digest[:8]}")
            self._sessions[named] = calls
            if len(self._sessions) > self._max_sessions:
                self._end(self._sessions.popitem(last=False)[1])
        self._sessions.move_to_end(named)
        return calls

    def _own_desk(self) -> AnySession:
        if self._shared is None:
            self._shared = self._session_of(None)
        return self._shared

    def _end(self, calls: Calls | None) -> None:
        if calls is None:
            return
        calls.abandon()
        if calls.session is not self._shared:
            threading.Thread(target=calls.session.end, daemon=True).start()

    async def _passed_on(self, request: web.Request, calls: Calls, batch: Batch) -> web.StreamResponse:
        headers = CIMultiDict((n, v) for n, v in request.headers.items() if n.lower() not in _NOT_PASSED_ON)
        headers["Accept-Encoding"] = "identity"  # the body has to be readable here
        headers.update(self._headers)
        for name, text in batch.headers.items():
            headers.popall(name, None)
            if text is not None:
                headers[name] = text
        try:
            async with self._http.request(
                request.method, self._url, data=batch.to_server, headers=headers, allow_redirects=False
            ) as upstream:
                if upstream.status in {301, 302, 303, 307, 308}:  # a client that follows it would bypass the guard
                    return _failed(
                        f"expected the server itself, got a redirect to {upstream.headers.get('Location')!r:.200}"
                    )
                if upstream.content_type == _EVENTS:
                    return await self._streamed(request, calls, batch, upstream)
                response = await self._whole(calls, batch, upstream)
                _not_answered(calls, batch, f"HTTP {upstream.status}")
                return response
        except (ClientError, TimeoutError) as error:
            _not_answered(calls, batch, f"{type(error).__name__}: {error}")
            return _failed(f"{type(error).__name__}: {error}")

    async def _whole(self, calls: Calls, batch: Batch, response: ClientResponse) -> web.Response:
        body = bytearray()
        async for some in response.content.iter_any():
            body += some
            if len(body) > MAX_BODY_BYTES:
                return _failed(f"expected at most {MAX_BODY_BYTES} bytes, got more")
        answer = bytes(body)
        if response.content_type == _JSON:
            answer = _answered(calls, answer, batch.refusals)
        elif batch.refusals:  # no forwarded message has a response
            return _json(batch.refusals, 200)
        return web.Response(body=answer, status=response.status, headers=_passed_back(response))

    async def _streamed(
        self, request: web.Request, calls: Calls, batch: Batch, upstream: ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status, headers=_passed_back(upstream))
        with contextlib.suppress(ClientError):  # either side is gone; a client that remains requests the rest
            await response.prepare(request)
            for refusal in batch.refusals:
                await response.write(_event(refusal))
            left, searched = bytearray(), 0
            async for some in upstream.content.iter_any():
                left += some
                at = 0
                while end := _END_OF_EVENT.search(left, max(at, searched)):
                    await response.write(_answered_event(calls, bytes(left[at : end.end()])))
                    at = end.end()
                del left[:at]
                searched = max(len(left) - 3, 0)  # a separator may be split across two pieces
                if len(left) > MAX_BODY_BYTES:  # too large for an event
                    break
            await response.write(bytes(left))
        return response


async def _checked(calls: Calls, payload: Any) -> Batch:
    """Check the calls of a body, one after another in their order."""
    messages = payload if isinstance(payload, list) else [payload]
    left: list[Any] = []
    refusals: list[Message] = []
    headers: dict[str, str | None] = {}
    ids: list[Any] = []
    for message in messages:
        if not calls.is_call(message):
            left.append(message)
            continue
        checked = await calls.ask_async(message)
        if checked.refusal is None:
            left.append(message if checked.changed is None else checked.changed)
            headers |= checked.headers or {}
            ids.append(message.get("id"))
        elif "id" in message:
            refusals.append(checked.refusal)
    is_list = isinstance(payload, list)
    to_server = written(left if is_list else left[0]) if left or not messages else None
    return Batch(to_server, refusals, headers, ids, is_list)


def _answered(calls: Calls, body: bytes, refusals: list[Message]) -> bytes:
    """Return a whole body with changed results, and the responses of the proxy itself."""
    try:
        answer = parsed(body)
    except ValueError:
        return body
    if not isinstance(answer, list) and not refusals:
        changed = calls.answered(answer)
        return body if changed is None else written(changed)
    messages = answer if isinstance(answer, list) else [answer]
    return written([*(calls.answered(message) or message for message in messages), *refusals])


def _not_answered(calls: Calls, batch: Batch, why: str) -> None:
    """End the calls of a request whose response has no result for them."""
    for message_id in batch.calls:
        calls.answered({"id": message_id, "error": {"message": f"no answer: {why}"}})


def _host_of(url: str) -> str | None:
    try:
        return URL(url).host
    except ValueError:
        return None


def _answered_event(calls: Calls, event: bytes) -> bytes:
    """Handle one event of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
    lines = event.splitlines()
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    try:
        message = parsed(data) if data else None
    except ValueError:
        return event
    changed = calls.answered(message)
    if changed is None:
        return event
    others = [line for line in lines if line and not line.startswith(b"data:")]
    return b"\n".join([*others, b"data: " + written(changed), b"", b""])


def _event(message: Message) -> bytes:
    return b"event: message\ndata: " + written(message) + b"\n\n"


def _passed_back(response: ClientResponse) -> "CIMultiDict[str]":
    return CIMultiDict(
        (n, v) for n, v in response.headers.items() if n.lower() not in _NOT_PASSED_ON | {"date", "server"}
    )


def _json(content: object, status: int) -> web.Response:
    return web.Response(body=written(content), status=status, content_type=_JSON)


def _failed(why: str) -> web.Response:
    return _json(failed(None, f"the MCP server could not be asked: {why}"), 502)
