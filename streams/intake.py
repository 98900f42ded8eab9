"""HTTP for agents in other languages: events in, verdicts out. The routes are described by `haltline intake --help`.

Events are checked, cleaned of secrets and confirmed by the broker before they are accepted; of a batch that cannot be
read, none is. Verdicts come through a guard for each session, by the same rules as everywhere: kills, fail policy.
"""

import asyncio
import hmac
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from aiohttp import web

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.cleaning import cleaned
from haltline.interventions.agent.integrations.desk import Answer, Desk
from haltline.interventions.agent.integrations.publishing import Away, Publisher
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import cloudevents, otel, wire
from haltline.schemas.events import ActionEvent
from haltline.streams import otlp
from haltline.streams.health import METRICS_TYPE
from haltline.streams.metrics import Metrics

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_EVENTS: Final = 1000
_IDLE_S = 3600.0
_BATCH = "application/cloudevents-batch+json"
_LINES = ("application/x-ndjson", "application/jsonl")
_SESSION_FIELDS = ("agent_id", "parent_session_id", "root_session_id", "mission_id")
_TRACES = "/v1/traces"
_ROUTES = "POST /v1/events, /v1/verdict, /v1/result or /v1/traces, or GET /healthz or /metrics"
_OPEN = frozenset({"/healthz", "/metrics"})
"""Asked without a token: they tell counts only."""
_CE = "ce-"
_SPECVERSION = "ce-specversion"


class Bad(Exception):
    """What was sent cannot be used: an HTTP status, and where, what was wanted and what came."""

    def __init__(self, status: int, *problems: str) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = problems


class Intake:
    """The routes."""

    def __init__(self, settings: GuardSettings, *, token: str | None = None, max_sessions: int = 200) -> None:
        self._settings = settings
        self._token = token
        self._max_sessions = max_sessions
        self._publisher = Publisher(settings)
        self._desks: OrderedDict[str, Desk] = OrderedDict()
        self._used_at: dict[str, float] = {}
        self._metrics = Metrics("intake")
        self._requests = self._metrics.children("http_requests_total")
        self._seconds = self._metrics.histogram("http_request_seconds")
        self._accepted = self._metrics.counter("intake_events_total")
        self._verdicts = self._metrics.children("intake_verdicts_total")
        self._metrics.gauge("intake_sessions").set_function(lambda: len(self._desks))

    def app(self) -> web.Application:
        """The application that serves them."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._counting, self._middleware])
        app.router.add_post("/v1/events", self._events)
        app.router.add_post("/v1/verdict", self._verdict)
        app.router.add_post("/v1/result", self._result)
        app.router.add_post(_TRACES, self._traces)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._told)
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
            if request.path not in _OPEN:
                self._admit(request)
            response: web.StreamResponse = await handler(request)
        except Bad as bad:
            return _failed(request, bad.status, bad.problems)
        except Away as away:
            return _failed(request, 503, [f"the broker did not take it: {away}"], {"Retry-After": "1"})
        except web.RequestPayloadError as bad:  # such as a gzip that is none
            return _failed(request, 400, [f"the body: wanted what its headers say, came another: {bad}"])
        except web.HTTPRequestEntityTooLarge:
            return _failed(request, 413, [f"the body: wanted at most {MAX_BODY_BYTES} bytes, came more"])
        except web.HTTPException as bad:  # of the server itself: no such route, another method
            return _failed(
                request, bad.status, [f"wanted {_ROUTES}, came {request.method} {request.path}"], bad.headers
            )
        return response

    def _admit(self, request: web.Request) -> None:
        if self._token is not None:
            said = request.headers.get("Authorization", "")
            if not hmac.compare_digest(said.encode(), f"Bearer {self._token}".encode()):
                raise Bad(401, "Authorization: wanted the bearer token of this intake, came none or another")
        elif not _is_meant_for(request):
            raise Bad(421, f"Host: wanted an address of this machine, as no token is wanted, came {request.host!r:.80}")
        kind = request.content_type
        readable = "json" in kind or (kind == otlp.PROTOBUF and request.path == _TRACES)
        if request.method == "POST" and not readable:  # a page in a browser cannot send these without being asked
            raise Bad(415, f"Content-Type: wanted JSON, came {kind!r:.80}")

    async def _events(self, request: web.Request) -> web.Response:
        body = await request.read()
        if _SPECVERSION in request.headers:
            return await self._binary(request, body)
        if request.content_type in _LINES:
            said = [line for line in body.splitlines() if line.strip()]
        else:
            value = _loaded(body)
            listed = value.get("events", [value]) if isinstance(value, dict) else value
            if not isinstance(listed, list):
                raise Bad(400, f"the body: wanted a list of events, came {type(listed).__name__}")
            said = [orjson.dumps(one) for one in listed]
        if len(said) > MAX_EVENTS:
            raise Bad(413, f"the body: wanted at most {MAX_EVENTS} events, came {len(said)}")
        cloud = request.content_type in {_BATCH, cloudevents.STRUCTURED}
        headers = [("content-type", cloudevents.STRUCTURED.encode())] if cloud else []
        made = _timed if cloud else _whole
        return await self._accept((made(one), headers) for one in said)

    async def _binary(self, request: web.Request, body: bytes) -> web.Response:
        """A CloudEvent whose attributes are headers, percent-encoded where they are no ASCII."""
        attributes = {
            n.lower()[len(_CE) :]: unquote(v) for n, v in request.headers.items() if n.lower().startswith(_CE)
        }
        attributes.setdefault("time", datetime.now(UTC).isoformat())
        headers = [(f"ce_{name}", text.encode(errors="replace")) for name, text in attributes.items()]
        return await self._accept([(body or b"{}", headers)])  # the attributes alone can tell all

    async def _accept(self, said: Iterable[tuple[bytes, list[tuple[str, bytes]]]]) -> web.Response:
        return _json({"accepted": await self._publish(self._checked(said))}, 202)

    async def _publish(self, events: Iterable[ActionEvent]) -> int:
        """Returns how many there were, when all are confirmed. Raises Away when one of them is not."""
        told = [asyncio.wrap_future(one) for one in self._publisher.publish(events)]
        for said in await asyncio.gather(*told, return_exceptions=True):
            if isinstance(said, BaseException):
                raise said
        self._accepted.inc(len(told))
        return len(told)

    async def _traces(self, request: web.Request) -> web.Response:
        """OTLP/HTTP. Spans that are not of generative AI are none of ours, and are no error."""
        kind = request.content_type
        try:
            spans = otel.of_agents(otlp.spans_of(await request.read(), kind))
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
        await self._publish(good)
        return web.Response(body=otlp.accepted(kind, bad_spans), content_type=kind)

    async def _verdict(self, request: web.Request) -> web.Response:
        said = _object(_loaded(await request.read()))
        name = _text(said, "action")
        args = said.get("args")
        if args is not None and not isinstance(args, dict):
            raise Bad(400, f"args: wanted an object, came {type(args).__name__}")
        targets = said.get("targets", [])
        if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
            raise Bad(400, "targets: wanted a list of texts, came something else")
        effect = said.get("effect")
        if effect is not None and not isinstance(effect, str):
            raise Bad(400, f"effect: wanted a text, came {effect!r:.80}")
        call_id = str(said.get("call_id") or uuid.uuid4().hex)[:256]
        desk = self._desk(said)
        try:
            answer = await desk.propose_async(call_id, name, args, targets=targets, effect=effect)
        except ValueError as error:  # an effect that does not exist
            raise Bad(400, str(error)) from None
        self._verdicts["allowed" if answer.refused is None else answer.refused.code,].inc()
        return _json(_said(answer, call_id, killed=desk.guard.killed), 200)

    async def _result(self, request: web.Request) -> web.Response:
        said = _object(_loaded(await request.read()))
        session_id, call_id = _text(said, "session_id"), _text(said, "call_id")
        error = said.get("error")
        desk = self._desks.get(session_id)
        known = desk is not None and desk.complete(
            call_id, said.get("output"), error=None if error is None else str(error)
        )
        if not known:
            raise Bad(404, f"call_id: wanted a call of session {session_id} that was asked about, came {call_id!r:.80}")
        return _json({}, 200)

    async def _health(self, _: web.Request) -> web.Response:
        healthy = await asyncio.to_thread(self._publisher.healthy)
        return _json({"broker": healthy, "sessions": len(self._desks)}, 200 if healthy else 503)

    async def _told(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": METRICS_TYPE})

    async def _close(self, _: web.Application) -> None:
        desks, self._desks = list(self._desks.values()), OrderedDict()
        await asyncio.gather(*(desk.close_async() for desk in desks))
        await asyncio.to_thread(self._publisher.close)

    def _checked(self, said: Iterable[tuple[bytes, list[tuple[str, bytes]]]]) -> list[ActionEvent]:
        """The events; all of them or, with every problem by its place, none."""
        good: list[ActionEvent] = []
        problems: list[str] = []
        for number, (value, headers) in enumerate(said):
            try:
                good.append(cleaned(wire.decode_event(value, headers), self._settings))
            except wire.InvalidRecord as bad:
                problems.append(f"events[{number}]: {bad}")
        if problems:
            raise Bad(400, *problems)
        return good

    def _desk(self, said: Mapping[str, Any]) -> Desk:
        session_id = _text(said, "session_id")
        desk = self._desks.get(session_id)
        if desk is None:
            above = {name: said[name] for name in _SESSION_FIELDS if said.get(name) is not None}
            try:
                settings = self._settings.changed(session_id=session_id, **above)
                desk = Desk(Guard(settings))
            except ValueError as error:
                raise Bad(400, str(error)) from None
            self._make_room()
            self._desks[session_id] = desk
        self._desks.move_to_end(session_id)
        self._used_at[session_id] = time.monotonic()
        return desk

    def _make_room(self) -> None:
        """Gives up the session that was asked about longest ago.

        What its author's rules count would be lost with it (kills are not: they are on a topic), so where there are
        rules it must have been idle for long.
        """
        if len(self._desks) < self._max_sessions:
            return
        oldest = next(iter(self._desks))
        if self._settings.rules is not None and time.monotonic() - self._used_at[oldest] < _IDLE_S:
            raise Bad(503, f"session_id: wanted one of {self._max_sessions} sessions that are at work, came one more")
        del self._used_at[oldest]
        threading.Thread(target=self._desks.pop(oldest).close, daemon=True).start()


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


def _said(answer: Answer, call_id: str, *, killed: bool) -> dict[str, Any]:
    refused = answer.refused
    said: dict[str, Any] = {"allowed": refused is None, "call_id": call_id, "killed": killed}
    if refused is not None:
        said |= {"code": refused.code, "message": refused.reason}
    if answer.hints:
        said["hints"] = answer.hints
    if answer.changes:
        said["change_arguments"] = {"put": answer.changes.put, "remove": answer.changes.remove}
    limits = {name: value for one in answer.advice for name, value in one.limits.items()}
    return said | ({"limits": limits} if limits else {})


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
        raise Bad(400, f"the body: wanted JSON, came {error}") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Bad(400, f"the body: wanted an object, came {type(value).__name__}")
    return value


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not value:
        raise Bad(400, f"{name}: wanted a text, came {value!r:.80}")
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
