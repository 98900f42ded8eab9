"""The admission of requests to the intake, limits on their size and number, and their JSON."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from haltline.interventions.agent.service.problems import Bad
from haltline.streams.intake import otlp
from haltline.streams.intake.keys import MAX_BODY_BYTES as MAX_BODY_BYTES  # noqa: PLC0414 - of every request, too
from haltline.streams.intake.keys import OPEN, Key, Keys, May, Scope
from haltline.streams.intake.shares import Room
from haltline.streams.json_text import MAX_VALUES, has_too_many

TRACES: Final = "/v1/traces"
OWN_ROUTES: Final = "/v2/begin, /v2/propose, /v2/end, /v2/turn or /v2/close"
LITELLM: Final = "/beta/litellm_basic_guardrail_api"
EVENTS: Final = "/v1/events"
METRICS: Final = "/metrics"
MAX_AT_ONCE: Final = 384
"""The most simultaneous requests; most of them wait for a verdict. Fewer than connections."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of the bodies of all simultaneous requests."""
LARGE_BYTES: Final = 256 * 1024
"""A larger body waits until the key's earlier ones are read as values, which takes the server's time."""
WITHIN_S: Final = 30.0
"""The time limit from the headers to the end of a body."""
_OPEN: Final = frozenset({"/healthz"})
"""Asked without a token."""
_MAY: Final = {EVENTS: May.PUBLISH, TRACES: May.PUBLISH, METRICS: May.METRICS}
"""Permissions by path; all others are about calls."""
_KEY: Final[ContextVar[Key]] = ContextVar("key", default=OPEN)
_HELD: Final[ContextVar[int]] = ContextVar("held", default=0)
"""The bytes of this task's request."""
_NOBODY: Final = Key("none", Scope())
_ENCODINGS: Final = frozenset({"identity", "gzip", "deflate"})


class Admission:
    """The admission of requests, with limits for each key, so that none takes the room of another."""

    def __init__(self, keys: Keys) -> None:
        """Without keys, every client is admitted."""
        self._keys = keys
        self._requests = Room(MAX_AT_ONCE, "requests")
        self.bytes = Room(MAX_BYTES, "bodies")
        self._turns: dict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    def check(self, request: web.Request) -> None:
        """Raise Bad for a request that must not be read further, and TooOften beyond its key's rate."""
        if request.path in _OPEN:
            _KEY.set(_NOBODY)
            return
        given = request.headers.get("Authorization", "")
        if not given and request.path == LITELLM:  # LiteLLM sends its `api_key` there, and offers no other place
            given = f"Bearer {request.headers.get('x-api-key', '')}"
        key = self._keys.of(given)
        key.admit(_MAY.get(request.path, May.VERDICTS))
        if self._keys.is_open or key.is_local:
            if not _is_meant_for(request):
                raise Bad(421, f"Host: expected an address of this machine, got {request.host!r:.80}")
            if key.is_local and (page := request.headers.get("Origin")) is not None:
                raise Bad(403, f"Origin: expected none, as pages in a browser may not ask, got {page!r:.80}")
        _KEY.set(key)
        kind = request.content_type
        readable = "json" in kind or (kind == otlp.PROTOBUF and request.path == TRACES)
        if request.method == "POST" and not readable:  # a page in a browser cannot send these without a preflight
            raise Bad(415, f"Content-Type: expected JSON, got {kind!r:.80}")

        encoding = _encoding(request)
        if encoding not in _ENCODINGS:
            raise Bad(415, f"Content-Encoding: expected one of {', '.join(sorted(_ENCODINGS))}, got {encoding:.40}")
        key.check_size(request.content_length or 0)

    @contextmanager
    def room(self) -> Iterator[None]:
        """Count one active request with its body, which is read in it. Raises Busy when the key has too many."""
        key = key_of_request()
        with self._requests.taken(key):
            _HELD.set(0)
            try:
                yield
            finally:
                self.bytes.give_back(key, _HELD.get())

    @asynccontextmanager
    async def body(self, request: web.Request) -> AsyncIterator[bytes]:
        """Yield the whole body, large ones of a key in turn.

        Raises Bad when it is too large or arrives too slowly, and Busy beyond the key's share.
        """
        key = key_of_request()
        try:
            async with asyncio.timeout(WITHIN_S):
                body = await self._read(request, key)
        except TimeoutError:
            raise Bad(408, f"the body: expected all of it within {WITHIN_S:g} s, got less") from None
        except ConnectionError:
            raise Bad(400, "the body: expected all of it, got the end of the connection") from None
        async with self._turns[key] if len(body) > LARGE_BYTES else nullcontext():
            if request.content_type != otlp.PROTOBUF and has_too_many(body):
                raise Bad(413, f"the body: expected at most {MAX_VALUES} values, got more")
            yield body

    async def _read(self, request: web.Request, key: Key) -> bytes:
        """Return the whole body. `request.read()` would keep a copy in the request until it is answered."""
        body = bytearray()
        while part := await request.content.readany():
            key.check_size(len(body) + len(part))
            self.bytes.take(key, len(part))
            body += part
            _HELD.set(len(body))
        return bytes(body)


def key_of_request() -> Key:
    """Return the key that admitted the request of this task; without one, that of an open intake."""
    return _KEY.get()


def loaded(body: bytes) -> Any:
    """Return its JSON value. Raises Bad."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Bad(400, f"the body: expected JSON, got {error}") from None


def json_response(value: object, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer in JSON."""
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json", headers=headers)


def _encoding(request: web.Request) -> str:
    return request.headers.get("Content-Encoding", "").strip().lower() or "identity"


def _is_meant_for(request: web.Request) -> bool:
    """Return whether a request to loopback names it. A page of a browser whose own name resolves to here does not."""
    address = request.transport.get_extra_info("sockname") if request.transport else None
    if not address or not _is_loopback(address[0]):
        return True
    try:
        name = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _is_loopback(name)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
