"""What a request to the intake may be: who is admitted, how much of it, how many at a time; and what its JSON has."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from haltline.streams.intake import otlp
from haltline.streams.intake.keys import MAX_BODY_BYTES as MAX_BODY_BYTES  # noqa: PLC0414 - of every request, too
from haltline.streams.intake.keys import Key, Keys, May
from haltline.streams.intake.problems import Bad, Busy
from haltline.streams.json_text import MAX_VALUES, has_too_many

TRACES: Final = "/v1/traces"
OWN_ROUTES: Final = "/v1/verdict, /v1/result, /v1/turn, /v1/start or /v1/end"
LITELLM: Final = "/beta/litellm_basic_guardrail_api"
EVENTS: Final = "/v1/events"
METRICS: Final = "/metrics"
MAX_AT_ONCE: Final = 256
"""Requests that are answered at a time; most of them wait for a verdict."""
LARGE_BYTES: Final = 256 * 1024
MAX_LARGE: Final = 2
"""Large bodies that are read at a time: as values they are many times as large."""
WITHIN_S: Final = 30.0
"""From the headers to the end of a body."""
_MAY: Final = {EVENTS: May.PUBLISH, TRACES: May.PUBLISH, METRICS: May.METRICS}
"""By path; all others are about calls."""
_KEY: Final[ContextVar[Key]] = ContextVar("key")
_ENCODINGS: Final = frozenset({"identity", "gzip", "deflate"})


class Admission:
    """Who is admitted, and how much at a time; of all routes together, those over gRPC too."""

    def __init__(self, keys: Keys) -> None:
        """Without keys whoever reaches the address is admitted."""
        self._keys = keys
        self._at_once = 0
        self._large = asyncio.Semaphore(MAX_LARGE)

    def check(self, request: web.Request) -> None:
        """Raises Bad for a request that is not to be read any further, and TooOften beyond its key's rate."""
        given = request.headers.get("Authorization", "")
        if not given and request.path == LITELLM:  # LiteLLM sends its `api_key` there, and has no other place
            given = f"Bearer {request.headers.get('x-api-key', '')}"
        key = self.key(given, _MAY.get(request.path, May.VERDICTS))
        if self._keys.is_open and not _is_meant_for(request):
            raise Bad(
                421, f"Host: expected an address of this machine, as no token is expected, got {request.host!r:.80}"
            )
        _KEY.set(key)
        kind = request.content_type
        readable = "json" in kind or (kind == otlp.PROTOBUF and request.path == TRACES)
        if request.method == "POST" and not readable:  # a page in a browser cannot send these without being asked
            raise Bad(415, f"Content-Type: expected JSON, got {kind!r:.80}")

        encoding = _encoding(request)
        if encoding not in _ENCODINGS:
            raise Bad(415, f"Content-Encoding: expected one of {', '.join(sorted(_ENCODINGS))}, got {encoding:.40}")
        key.check_size(request.content_length or 0)

    def key(self, authorization: str, may: May) -> Key:
        """The key of a request, which counts as used. Raises Bad and TooOften, as `Keys.of` and `Key.admit`."""
        key = self._keys.of(authorization)
        key.admit(may)
        return key

    @asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Counts as one request that is answered. Raises Busy when there are too many."""
        if self._at_once >= MAX_AT_ONCE:
            raise Busy(f"expected at most {MAX_AT_ONCE} requests at a time, got one more")
        self._at_once += 1
        try:
            yield
        finally:
            self._at_once -= 1

    @asynccontextmanager
    async def few_large(self, size: int | None) -> AsyncIterator[None]:
        """Of those that are large, or may be (None), few are read at a time."""
        async with self._large if size is None or size > LARGE_BYTES else nullcontext():
            yield

    @asynccontextmanager
    async def body(self, request: web.Request) -> AsyncIterator[bytes]:
        """The whole body; of those that may be large, few at a time. Raises Bad when it comes too slowly."""
        async with self.few_large(request.content_length if _encoding(request) == "identity" else None):
            try:
                async with asyncio.timeout(WITHIN_S):
                    body = await _read(request, key_of_request())
            except TimeoutError:
                raise Bad(408, f"the body: expected all of it within {WITHIN_S:g} s, got less") from None
            if request.content_type != otlp.PROTOBUF and has_too_many(body):
                raise Bad(413, f"the body: expected at most {MAX_VALUES} values, got more")
            yield body


def key_of_request() -> Key:
    """The key with which the request that this task answers was admitted."""
    return _KEY.get()


async def _read(request: web.Request, key: Key) -> bytes:
    """The whole body. Of `request.read()` the request would hold a copy until it is answered."""
    body = bytearray()
    while part := await request.content.readany():
        body += part
        key.check_size(len(body))
    return bytes(body)


def loaded(body: bytes) -> Any:
    """Its JSON. Raises Bad."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Bad(400, f"the body: expected JSON, got {error}") from None


def object_of(value: Any) -> dict[str, Any]:
    """It, when it is an object. Raises Bad."""
    if not isinstance(value, dict):
        raise Bad(400, f"the body: expected an object, got {type(value).__name__}")
    return value


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """A text that has to be there. Raises Bad."""
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise Bad(400, f"{name}: expected a text, got {value!r:.80}")
    return value


def json_response(value: object, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer in JSON."""
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json", headers=headers)


def _encoding(request: web.Request) -> str:
    return request.headers.get("Content-Encoding", "").strip().lower() or "identity"


def _is_meant_for(request: web.Request) -> bool:
    """Whether a request to loopback names it. A page in a browser whose own name was made to lead here does not."""
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
