"""HTTP for agents in other languages: events in, verdicts out. The routes are described by `haltline intake --help`.

Events are checked, cleaned of secrets and confirmed by the broker before they are accepted; of a batch that cannot be
read, none is. Verdicts come through a guard for each session, by the same rules as everywhere: kills, fail policy.
"""

import asyncio
import hmac
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.cleaning import cleaned
from haltline.interventions.agent.integrations.publishing import Away, Publisher
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import cloudevents, otel, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.intake import otlp
from haltline.streams.intake.calls import Calls
from haltline.streams.intake.problems import Bad, Busy
from haltline.streams.intake.repeated import Repeated, Reply, fingerprint
from haltline.streams.intake.sessions import MakeGuard, Sessions
from haltline.streams.json_text import MAX_VALUES, has_too_many
from haltline.streams.runtime.health import METRICS_TYPE
from haltline.streams.runtime.metrics import Metrics

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_EVENTS: Final = 1000
_BATCH = "application/cloudevents-batch+json"
_LINES = ("application/x-ndjson", "application/jsonl")
_TRACES = "/v1/traces"
_OWN_ROUTES = "/v1/verdict, /v1/result, /v1/turn, /v1/start or /v1/end"
_ROUTES = f"POST /v1/events, /v1/traces, {_OWN_ROUTES}, or GET /healthz or /metrics"
MAX_AT_ONCE: Final = 256
"""Requests that are answered at a time; most of them wait for a verdict."""
LARGE_BYTES: Final = 256 * 1024
MAX_LARGE: Final = 2
"""Large bodies that are read at a time: as values they are many times as large."""
_EMPTY_LINES: Final = 10
"""For each that is none."""
WITHIN_S: Final = 30.0
"""From the headers to the end of a body."""
_OPEN = frozenset({"/healthz"})
"""Asked without a token."""
_ENCODINGS: Final = frozenset({"identity", "gzip", "deflate"})
_CE = "ce-"
_SPECVERSION = "ce-specversion"


class Intake:
    """The routes."""

    def __init__(
        self,
        settings: GuardSettings,
        *,
        token: str | None = None,
        max_sessions: int = 200,
        make_guard: MakeGuard = Guard,
    ) -> None:
        self._settings = settings
        self._token = token
        self._at_once = 0
        self._large = asyncio.Semaphore(MAX_LARGE)
        self._publisher = None if settings.bootstrap is None else Publisher(settings)
        self._sessions = Sessions(settings, max_sessions, make_guard)
        self._repeated = Repeated()
        self._metrics = Metrics("intake")
        self._requests = self._metrics.children("http_requests_total")
        self._seconds = self._metrics.histogram("http_request_seconds")
        self._accepted = self._metrics.counter("intake_events_total")
        self._calls = Calls(settings, self._sessions, self._metrics.children("intake_verdicts_total"))
        self._metrics.gauge("intake_sessions").set_function(lambda: len(self._sessions))

    def app(self) -> web.Application:
        """The application that serves them."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._counting, self._middleware])
        app.router.add_post("/v1/events", self._events)
        for path, answer in self._calls.routes().items():
            app.router.add_post(path, self._answering(answer))
        app.router.add_post(_TRACES, self._traces)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._serve_metrics)
        app.on_cleanup.append(self._close)
        return app

    @web.middleware
    async def _counting(self, request: web.Request, handler: Any) -> web.StreamResponse:
        began = time.perf_counter()
        response: web.StreamResponse = await handler(request)
        resource = request.match_info.route.resource
        route = "none" if resource is None else resource.canonical
        self._requests[route, str(response.status)].inc()
        self._seconds.labels(route).observe(time.perf_counter() - began)
        return response

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            if request.path in _OPEN:
                response: web.StreamResponse = await handler(request)
            else:
                self._admit(request)
                response = await self._among_others(request, handler)
        except Bad as bad:
            return _failed(request, bad.status, bad.problems)
        except Busy as busy:
            return _failed(request, 503, [str(busy)], {"Retry-After": "1"})
        except Away as away:
            return _failed(request, 503, [f"the broker did not take it: {away}"], {"Retry-After": "1"})
        except web.RequestPayloadError as bad:  # such as a gzip that is none
            return _failed(request, 400, [f"the body: expected what its headers say, got another: {bad}"])
        except web.HTTPRequestEntityTooLarge:
            return _failed(request, 413, [f"the body: expected at most {MAX_BODY_BYTES} bytes, got more"])
        except web.HTTPException as bad:  # of the server itself: no such route, another method
            return _failed(
                request, bad.status, [f"expected {_ROUTES}, got {request.method} {request.path}"], bad.headers
            )
        return response

    def _admit(self, request: web.Request) -> None:
        if self._token is not None:
            authorization = request.headers.get("Authorization", "")
            if not hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode()):
                raise Bad(401, "Authorization: expected the bearer token of this intake, got none or another")
        elif not _is_meant_for(request):
            raise Bad(
                421, f"Host: expected an address of this machine, as no token is expected, got {request.host!r:.80}"
            )
        kind = request.content_type
        readable = "json" in kind or (kind == otlp.PROTOBUF and request.path == _TRACES)
        if request.method == "POST" and not readable:  # a page in a browser cannot send these without being asked
            raise Bad(415, f"Content-Type: expected JSON, got {kind!r:.80}")

        encoding = _encoding(request)
        if encoding not in _ENCODINGS:
            raise Bad(415, f"Content-Encoding: expected one of {', '.join(sorted(_ENCODINGS))}, got {encoding:.40}")
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise Bad(413, f"the body: expected at most {MAX_BODY_BYTES} bytes, got more")

    async def _among_others(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self._at_once >= MAX_AT_ONCE:
            raise Busy(f"expected at most {MAX_AT_ONCE} requests at a time, got one more")
        self._at_once += 1
        try:
            response: web.StreamResponse = await handler(request)
        finally:
            self._at_once -= 1
        return response

    @asynccontextmanager
    async def _body(self, request: web.Request) -> AsyncIterator[bytes]:
        """The whole body; of those that may be large, few at a time. Raises Bad when it comes too slowly."""
        length = request.content_length
        large = _encoding(request) != "identity" or length is None or length > LARGE_BYTES
        async with self._large if large else nullcontext():
            try:
                async with asyncio.timeout(WITHIN_S):
                    body = await request.read()
            except TimeoutError:
                raise Bad(408, f"the body: expected all of it within {WITHIN_S:g} s, got less") from None
            if request.content_type != otlp.PROTOBUF and has_too_many(body):
                raise Bad(413, f"the body: expected at most {MAX_VALUES} values, got more")
            yield body

    async def _events(self, request: web.Request) -> web.Response:
        async with self._body(request) as body:
            return await self._accept(self._checked(self._records_of(request, body)))

    def _records_of(self, request: web.Request, body: bytes) -> Iterable[tuple[bytes, list[tuple[str, bytes]]]]:
        if _SPECVERSION in request.headers:
            return self._binary(request, body)
        if request.content_type in _LINES:
            _require_few(body.count(b"\n") // _EMPTY_LINES)  # many empty ones would take long
            lines = [line for line in body.splitlines() if line.strip()]
            _require_few(len(lines))
        else:
            value = _loaded(body)
            listed = value.get("events", [value]) if isinstance(value, dict) else value
            if not isinstance(listed, list):
                raise Bad(400, f"the body: expected a list of events, got {type(listed).__name__}")
            _require_few(len(listed))
            lines = [orjson.dumps(one) for one in listed]
        cloud = request.content_type in {_BATCH, cloudevents.STRUCTURED}
        headers = [("content-type", cloudevents.STRUCTURED.encode())] if cloud else []
        made = _timed if cloud else _whole
        return ((made(one), headers) for one in lines)

    def _binary(self, request: web.Request, body: bytes) -> list[tuple[bytes, list[tuple[str, bytes]]]]:
        """A CloudEvent whose attributes are headers, percent-encoded where they are no ASCII."""
        attributes = {
            n.lower()[len(_CE) :]: unquote(v) for n, v in request.headers.items() if n.lower().startswith(_CE)
        }
        attributes.setdefault("time", datetime.now(UTC).isoformat())
        headers = [(f"ce_{name}", text.encode(errors="replace")) for name, text in attributes.items()]
        return [(body or b"{}", headers)]  # the attributes alone can tell all

    async def _accept(self, events: list[ActionEvent]) -> web.Response:
        return _json({"accepted": await self._publish(events)}, 202)

    async def _publish(self, events: Iterable[ActionEvent]) -> int:
        """Returns how many there were, when all are confirmed. Raises Away when one of them is not."""
        if self._publisher is None:
            raise Bad(501, f"expected {_OWN_ROUTES}, as this intake decides in its own process and has no broker")
        published = [asyncio.wrap_future(one) for one in self._publisher.publish(events)]
        for outcome in await asyncio.gather(*published, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        self._accepted.inc(len(published))
        return len(published)

    async def _traces(self, request: web.Request) -> web.Response:
        """OTLP/HTTP. Spans that are not of generative AI are none of ours, and are no error."""
        kind = request.content_type
        async with self._body(request) as body:
            good, bad_spans = self._spans(body, kind)
        await self._publish(good)
        return web.Response(body=otlp.accepted(kind, bad_spans), content_type=kind)

    def _spans(self, body: bytes, kind: str) -> tuple[list[ActionEvent], list[str]]:
        """The events of spans that are of generative AI, and what is wrong with the others of these."""
        try:
            spans = otel.of_agents(otlp.spans_of(body, kind))
        except otlp.NotOtlp as bad:
            raise Bad(400, f"the body: {bad}") from None
        except ModuleNotFoundError:
            raise Bad(415, f"{kind}: needs opentelemetry-proto (haltline[intake]); or send JSON") from None
        headers = [("content-type", otel.CONTENT_TYPE.encode())]
        good: list[ActionEvent] = []
        bad_spans: list[str] = []
        for number, span in enumerate(spans):
            try:
                good.append(cleaned(wire.decode_event(orjson.dumps(span), headers), self._settings))
            except (wire.InvalidRecord, orjson.JSONEncodeError) as problem:
                bad_spans.append(f"span {span.get('spanId', number)!r:.40}: {problem}")
        return good, bad_spans

    def _answering(self, answer: Callable[[dict[str, Any]], Awaitable[Reply]]) -> Handler:
        """One route about calls: the answer to an object of JSON, once for all requests with its key."""

        async def handle(request: web.Request) -> web.Response:
            async with self._body(request) as body:
                fields, digest = _object(_loaded(body)), fingerprint(body)
            status, value = await self._repeated.once(request, digest, lambda: answer(fields))
            return _json(value, status)

        return handle

    async def _health(self, _: web.Request) -> web.Response:
        if self._publisher is None:
            return _json({"broker": None, "sessions": len(self._sessions)}, 200)
        healthy = await asyncio.to_thread(self._publisher.healthy)
        return _json({"broker": healthy, "sessions": len(self._sessions)}, 200 if healthy else 503)

    def exposition(self) -> bytes:
        """Its metrics, for Prometheus."""
        return self._metrics.exposition()

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.exposition(), headers={"Content-Type": METRICS_TYPE})

    async def _close(self, _: web.Application) -> None:
        await self._repeated.close()
        await self._sessions.close()
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.close)

    def _checked(self, records: Iterable[tuple[bytes, list[tuple[str, bytes]]]]) -> list[ActionEvent]:
        """The events; all of them or, with every problem by its place, none."""
        good: list[ActionEvent] = []
        problems: list[str] = []
        for number, (value, headers) in enumerate(records):
            try:
                good.append(cleaned(wire.decode_event(value, headers), self._settings))
            except wire.InvalidRecord as bad:
                problems.append(f"events[{number}]: {bad}")
        if problems:
            raise Bad(400, *problems)
        return good


def _require_few(count: int) -> None:
    """Before anything is made of them."""
    if count > MAX_EVENTS:
        raise Bad(413, f"the body: expected at most {MAX_EVENTS} events, got {count}")


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


def _whole(value: bytes) -> bytes:
    """With an id and a time, where a small client leaves them to us."""
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    if not isinstance(event, dict):
        return value
    return orjson.dumps({"event_id": uuid.uuid4().hex, "time": time.time_ns() // 1_000_000} | event)


def _timed(value: bytes) -> bytes:
    """A CloudEvent with a time, which it need not have."""
    event = _loaded(value)
    return orjson.dumps({"time": time.time_ns() // 1_000_000} | event) if isinstance(event, dict) else value


def _loaded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Bad(400, f"the body: expected JSON, got {error}") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Bad(400, f"the body: expected an object, got {type(value).__name__}")
    return value


def _failed(
    request: web.Request, status: int, problems: Iterable[str], headers: Mapping[str, str] | None = None
) -> web.Response:
    kept = {name: text for name, text in (headers or {}).items() if name in {"Retry-After", "Allow"}}
    if request.path == _TRACES:
        kind = otlp.PROTOBUF if request.content_type == otlp.PROTOBUF else otlp.JSON
        return web.Response(body=otlp.failed(kind, status, problems), status=status, content_type=kind, headers=kept)
    return _json({"errors": list(problems)}, status, kept)


def _json(value: object, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json", headers=headers)
