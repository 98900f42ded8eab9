"""The HTTP server for agents in other languages: events in, verdicts out. `haltline intake --help` lists the routes.

Events are checked, redacted and confirmed by the broker before they are accepted; a batch with an unreadable event is
refused as a whole. Verdicts come from a guard for each session, with the usual rules: kills, fail policy.
"""

import asyncio
import math
import os
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

import haltline
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.producers.publishing import Away
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.service.problems import Bad, Busy, TooOften, object_of
from haltline.interventions.agent.service.sessions import MakeGuard, Sessions
from haltline.interventions.agent.service.verbs import Verbs
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.stored_sessions import StoredSessions, state_folder
from haltline.schemas import cloudevents, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.intake import otlp
from haltline.streams.intake.earlier import ROUTES, Earlier
from haltline.streams.intake.keys import MAX_BODY_BYTES, Key, Keys, Scope
from haltline.streams.intake.litellm import LiteLLMGuardrail
from haltline.streams.intake.requests import (
    EVENTS,
    LITELLM,
    METRICS,
    OWN_ROUTES,
    TRACES,
    Admission,
    json_response,
    key_of_request,
    loaded,
)
from haltline.streams.intake.topic_writer import AT_A_TIME, TopicWriter
from haltline.streams.runtime.health import METRICS_TYPE
from haltline.streams.runtime.metrics import Metrics

MAX_EVENTS: Final = 1000
_BATCH = "application/cloudevents-batch+json"
_LINES = ("application/x-ndjson", "application/jsonl")
_ROUTES = f"POST /v1/events, /v1/traces, {OWN_ROUTES}, {LITELLM}, or GET /healthz or /metrics"
_EMPTY_LINES: Final = 10
"""The problem text for an invalid record."""
ORDERS: Final = "/v2/orders"
TOKEN: Final = "Haltline-Token"
"""The header with the token of a session, where there is no body."""
SIGN_OF_LIFE_S: Final = 15.0
_CE = "ce-"
_SPECVERSION = "ce-specversion"


class Intake:
    """The routes of an intake."""

    def __init__(
        self,
        settings: GuardSettings,
        *,
        token: str | None = None,
        keys: Mapping[str, Scope] | None = None,
        max_sessions: int = 200,
        make_guard: MakeGuard = Guard,
        holds_mode: bool = False,
        is_local: bool = False,
    ) -> None:
        """`token` permits everything, `keys` permit their scopes. `is_local`: the token is this machine's user's.

        `holds_mode`: no request weakens the mode of the settings.
        """
        self._metrics = Metrics("intake")
        self._requests = self._metrics.children("http_requests_total")
        self._seconds = self._metrics.histogram("http_request_seconds")
        self.admission = Admission(Keys(keys or {}, token, is_local=is_local))
        self._agent_id = settings.agent_id
        self.writer = TopicWriter(settings, self._metrics.counter("intake_events_total"))
        self._sessions = Sessions(settings, max_sessions, make_guard, holds_mode=holds_mode, snapshots=is_local)
        verdicts = self._metrics.children("intake_verdicts_total")

        def count(refused: Refused | None) -> None:
            verdicts["allowed" if refused is None else refused.code,].inc()

        stored = StoredSessions(state_folder(os.environ)) if is_local else None
        self.verbs = Verbs(self._sessions, haltline.__version__, stored=stored, count=count)
        self._earlier = Earlier(self.verbs, self._sessions, settings.agent_id)
        self._streams: set[asyncio.Task[Any] | None] = set()
        self._guardrail = LiteLLMGuardrail(self._sessions, settings.agent_id, count)
        self._metrics.gauge("intake_sessions").set_function(lambda: len(self._sessions))

    def app(self) -> web.Application:
        """Return the application that serves the routes."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._counting, self._middleware])
        app.router.add_post(EVENTS, self._events)
        for route in ROUTES:
            app.router.add_post(f"/v1/{route}", self._of_earlier(route))
        for verb in self.verbs.routes:
            app.router.add_post(f"/v2/{verb}", self._of_verb(verb))
        app.router.add_get(ORDERS, self._orders)
        app.router.add_post(TRACES, self._traces)
        app.router.add_post(LITELLM, self._litellm)
        app.router.add_get("/healthz", self._health)
        app.router.add_get(METRICS, self._serve_metrics)
        app.cleanup_ctx.append(self._ending_expired)
        app.on_shutdown.append(self._end_streams)
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
            self.admission.check(request)
            with self.admission.room() if request.path != ORDERS else nullcontext():
                response: web.StreamResponse = await handler(request)
        except Bad as bad:
            return _failed(request, bad.status, bad.problems)
        except TooOften as often:
            return _failed(request, 429, [str(often)], {"Retry-After": str(math.ceil(often.after_s))})
        except Busy as busy:
            return _failed(request, 503, [str(busy)], {"Retry-After": "1"})
        except Away as away:
            return _failed(request, 503, [f"the broker did not take it: {away}"], {"Retry-After": "1"})
        except web.RequestPayloadError as bad:  # such as invalid gzip
            return _failed(request, 400, [f"the body: expected what its headers say, got another: {bad}"])
        except web.HTTPRequestEntityTooLarge:
            return _failed(request, 413, [f"the body: expected at most {MAX_BODY_BYTES} bytes, got more"])
        except web.HTTPException as bad:  # from the server itself: no such route, another method
            return _failed(
                request, bad.status, [f"expected {_ROUTES}, got {request.method} {request.path}"], bad.headers
            )
        return response

    async def _events(self, request: web.Request) -> web.Response:
        key = key_of_request()
        async with self.admission.body(request) as body:
            events = await self._checked(self._records_of(request, body), key)
        return json_response({"accepted": await self.writer.publish(events, key)}, 202)

    def _records_of(self, request: web.Request, body: bytes) -> Iterable[tuple[bytes, list[tuple[str, bytes]]]]:
        if _SPECVERSION in request.headers:
            return self._binary(request, body)
        if request.content_type in _LINES:
            _require_few(body.count(b"\n") // _EMPTY_LINES)  # many empty lines would take long
            lines = [line for line in body.splitlines() if line.strip()]
            _require_few(len(lines))
        else:
            value = loaded(body)
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
        """Return a CloudEvent whose attributes are headers, percent-encoded if they are not ASCII."""
        attributes = {
            n.lower()[len(_CE) :]: unquote(v) for n, v in request.headers.items() if n.lower().startswith(_CE)
        }
        attributes.setdefault("time", datetime.now(UTC).isoformat())
        headers = [(f"ce_{name}", text.encode(errors="replace")) for name, text in attributes.items()]
        return [(body or b"{}", headers)]  # the attributes alone can be the event

    async def _traces(self, request: web.Request) -> web.Response:
        """Accept OTLP/HTTP. Spans without generative AI are ignored, and are not errors."""
        kind = request.content_type
        key = key_of_request()
        async with self.admission.body(request) as body:
            good, bad_spans = await self.writer.spans_of(body, kind, key)
        await self.writer.publish(good, key)
        return web.Response(body=otlp.accepted(kind, bad_spans), content_type=kind)

    def _of_earlier(self, route: str) -> Handler:
        """Return the handler of a route of the last release."""

        async def handle(request: web.Request) -> web.Response:
            fields, size = await self._object(request)
            key = key_of_request()
            with self.admission.bytes.taken(key, size):
                status, value = await self._earlier.answer(route, fields, request.headers, key)
            return json_response(value, status)

        return handle

    def _of_verb(self, verb: str) -> Handler:
        """Return the handler of a verb of the local service's messages."""

        async def handle(request: web.Request) -> web.Response:
            fields, size = await self._object(request)
            key = key_of_request()
            key.check_request(fields, self._agent_id if verb == "begin" else None)
            with self.admission.bytes.taken(key, size):
                return json_response(await self.verbs.answer(verb, fields, key), 200)

        return handle

    async def _orders(self, request: web.Request) -> web.StreamResponse:
        """Stream the orders for a client, as server-sent events, until its connection ends."""
        token = request.headers.get(TOKEN, "")
        orders, task = self.verbs.connect(token, key_of_request()), asyncio.current_task()
        self._streams.add(task)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        try:
            await response.prepare(request)
            while True:
                line = b":\n\n"  # a comment, so that a connection which is gone is noticed
                with suppress(TimeoutError):
                    async with asyncio.timeout(SIGN_OF_LIFE_S):
                        order = await orders.get()
                        line = b"data: %b\n\n" % orjson.dumps(order.model_dump(exclude_none=True))
                await response.write(line)
        except ConnectionError:
            return response
        finally:
            self._streams.discard(task)
            self.verbs.disconnect(token, orders)

    async def _end_streams(self, _: web.Application) -> None:
        for task in self._streams:
            if task is not None:
                task.cancel()

    async def _ending_expired(self, _: web.Application) -> AsyncIterator[None]:
        """End the sessions whose clients are gone, while it serves."""
        ending = asyncio.create_task(self.verbs.keep_ending())
        yield
        ending.cancel()

    async def _object(self, request: web.Request) -> tuple[dict[str, Any], int]:
        """Return the object, and the size of its body, which is not kept while the answer is computed."""
        async with self.admission.body(request) as body:
            return object_of(loaded(body)), len(body)

    async def _litellm(self, request: web.Request) -> web.Response:
        async with self.admission.body(request) as body:
            fields = object_of(loaded(body))
        return json_response(await self._guardrail.answer(fields, key_of_request()), 200)

    async def _health(self, _: web.Request) -> web.Response:
        healthy = await self.writer.healthy()
        return json_response({"broker": healthy, "sessions": len(self._sessions)}, 503 if healthy is False else 200)

    def exposition(self) -> bytes:
        """Return its metrics in Prometheus' text format."""
        return self._metrics.exposition()

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.exposition(), headers={"Content-Type": METRICS_TYPE})

    async def _close(self, _: web.Application) -> None:
        await self.verbs.close()
        await self.writer.close()

    async def _checked(self, records: Iterable[tuple[bytes, list[tuple[str, bytes]]]], key: Key) -> list[ActionEvent]:
        """Return the events; if one is invalid, raise with the position of every problem. Others are served between."""
        good: list[ActionEvent] = []
        problems: list[str] = []
        outside: list[str] = []
        for number, (value, headers) in enumerate(records):
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
            try:
                good.append(self.writer.checked(value, headers))
            except wire.InvalidRecord as bad:
                problems.append(f"events[{number}]: {bad}")
                continue
            if (why := key.outside_of_event(good[-1])) is not None:
                outside.append(f"events[{number}]: {why}")
        if problems or outside:
            raise Bad(400 if problems else 403, *problems, *outside)
        return good


def _require_few(count: int) -> None:
    """Raise Bad for too many records, before they are parsed."""
    if count > MAX_EVENTS:
        raise Bad(413, f"the body: expected at most {MAX_EVENTS} events, got {count}")


def _whole(value: bytes) -> bytes:
    """Return the event with an id and a time, which small clients may omit."""
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    if not isinstance(event, dict):
        return value
    return orjson.dumps({"event_id": uuid.uuid4().hex, "time": time.time_ns() // 1_000_000} | event)


def _timed(value: bytes) -> bytes:
    """Return a CloudEvent with a time, which is optional there."""
    event = loaded(value)
    return orjson.dumps({"time": time.time_ns() // 1_000_000} | event) if isinstance(event, dict) else value


def _failed(
    request: web.Request, status: int, problems: Iterable[str], headers: Mapping[str, str] | None = None
) -> web.Response:
    kept = {name: text for name, text in (headers or {}).items() if name in {"Retry-After", "Allow"}}
    if request.path == TRACES:
        kind = otlp.PROTOBUF if request.content_type == otlp.PROTOBUF else otlp.JSON
        return web.Response(body=otlp.failed(kind, status, problems), status=status, content_type=kind, headers=kept)
    return json_response({"errors": list(problems)}, status, kept)
