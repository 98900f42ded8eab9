"""HTTP for agents in other languages: events in, verdicts out. The routes are described by `haltline intake --help`.

Events are checked, cleaned of secrets and confirmed by the broker before they are accepted; of a batch that cannot be
read, none is. Verdicts come through a guard for each session, by the same rules as everywhere: kills, fail policy.
"""

import asyncio
import contextlib
import hmac
import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson
from aiohttp import web
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.cleaning import cleaned
from haltline.interventions.agent.integrations.desk import Answer, Desk
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import cloudevents, otel, wire
from haltline.schemas.events import ActionEvent
from haltline.schemas.topics import Topics

log: Final = logging.getLogger("haltline.intake")

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_EVENTS: Final = 1000
_CONFIRM_S = 30.0
_HEALTH_S = 2.0
_BATCH = "application/cloudevents-batch+json"
_LINES = ("application/x-ndjson", "application/jsonl")
_SESSION_FIELDS = ("agent_id", "parent_session_id", "root_session_id", "mission_id")
_GEN_AI = "gen_ai."


class Bad(Exception):
    """What was sent cannot be used: an HTTP status, and where, what was wanted and what came."""

    def __init__(self, status: int, *problems: str) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = problems


class Away(Exception):
    """The broker did not take it."""


class Publisher:
    """Puts records on the topic `actions`, and says when the broker has them."""

    def __init__(self, settings: GuardSettings) -> None:
        """Raises KafkaException when librdkafka refuses the settings."""
        self._topic = Topics(settings.topic_prefix).actions
        self._producer = Producer(
            {
                "log_level": 2,
                **settings.kafka,
                "bootstrap.servers": settings.bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "delivery.timeout.ms": int(_CONFIRM_S * 1000),
            },
            logger=log,
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="haltline-intake", daemon=True)
        self._thread.start()

    async def publish(self, events: Iterable[ActionEvent]) -> int:
        """Returns how many there were, when all are confirmed. Raises Away when one of them is not."""
        loop = asyncio.get_running_loop()
        waits = []
        for event in events:
            confirmed: asyncio.Future[None] = loop.create_future()
            waits.append(confirmed)
            try:
                self._producer.produce(
                    self._topic,
                    key=event.session_id.encode(),
                    value=event.to_json(),
                    on_delivery=_tell(loop, confirmed),
                )
            except (BufferError, KafkaException) as error:
                confirmed.set_exception(Away(str(error)))
        for said in await asyncio.gather(*waits, return_exceptions=True):
            if isinstance(said, BaseException):
                raise said
        return len(waits)

    async def healthy(self) -> bool:
        """Whether the broker answers and has the topic."""
        try:
            found = await asyncio.to_thread(self._producer.list_topics, self._topic, _HEALTH_S)
        except KafkaException:
            return False
        return found.topics[self._topic].error is None

    def close(self) -> None:
        """Waits for what is under way."""
        self._producer.flush(5.0)
        self._ended.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(0)
        self._producer.close()

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._producer.poll(0.1)


def _tell(
    loop: asyncio.AbstractEventLoop, confirmed: "asyncio.Future[None]"
) -> Callable[[KafkaError | None, Message], None]:
    def told(error: KafkaError | None, _: Message) -> None:
        def tell() -> None:
            if confirmed.done():
                return
            if error is None:
                confirmed.set_result(None)
            else:
                confirmed.set_exception(Away(error.str()))

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell)

    return told


class Intake:
    """The routes."""

    def __init__(self, settings: GuardSettings, *, token: str | None = None, max_sessions: int = 200) -> None:
        self._settings = settings
        self._token = token
        self._max_sessions = max_sessions
        self._publisher = Publisher(settings)
        self._desks: OrderedDict[str, Desk] = OrderedDict()

    def app(self) -> web.Application:
        """The application that serves them."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._middleware])
        app.router.add_post("/v1/events", self._events)
        app.router.add_post("/v1/verdict", self._verdict)
        app.router.add_post("/v1/result", self._result)
        app.router.add_post("/v1/traces", self._traces)
        app.router.add_get("/healthz", self._health)
        app.on_cleanup.append(self._close)
        return app

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            if request.path != "/healthz":
                self._admit(request)
            response: web.StreamResponse = await handler(request)
        except Bad as bad:
            return _json({"errors": list(bad.problems)}, bad.status)
        except Away as away:
            return _json({"errors": [f"the broker did not take it: {away}"]}, 503, {"Retry-After": "1"})
        return response

    def _admit(self, request: web.Request) -> None:
        if self._token is not None:
            said = request.headers.get("Authorization", "")
            if not hmac.compare_digest(said.encode(), f"Bearer {self._token}".encode()):
                raise Bad(401, "Authorization: wanted the bearer token of this intake, came none or another")
        kind = request.content_type
        if request.method == "POST" and "json" not in kind:  # a page in a browser cannot send this without being asked
            raise Bad(415, f"Content-Type: wanted JSON, came {kind!r:.80}")

    async def _events(self, request: web.Request) -> web.Response:
        body = await request.read()
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
        accepted = await self._publisher.publish(self._checked((_whole(s) if not cloud else s, headers) for s in said))
        return _json({"accepted": accepted}, 202)

    async def _traces(self, request: web.Request) -> web.Response:
        """OTLP/HTTP with JSON. Spans that are not of generative AI are none of ours, and are no error."""
        body = _loaded(await request.read())
        spans = [s for s in _spans(body) if any(str(a.get("key", "")).startswith(_GEN_AI) for a in _attributes(s))]
        headers = [("content-type", otel.CONTENT_TYPE.encode())]
        good: list[ActionEvent] = []
        bad: list[str] = []
        for span in spans:
            try:
                good += self._checked([(orjson.dumps(span), headers)])
            except Bad as problem:
                bad += problem.problems
        await self._publisher.publish(good)
        partial = {"rejectedSpans": len(bad), "errorMessage": "; ".join(bad[:5])} if bad else {}
        return _json({"partialSuccess": partial}, 200)

    async def _verdict(self, request: web.Request) -> web.Response:
        said = _object(_loaded(await request.read()))
        name = _text(said, "action")
        args = said.get("args")
        if args is not None and not isinstance(args, dict):
            raise Bad(400, f"args: wanted an object, came {type(args).__name__}")
        targets = said.get("targets", [])
        if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
            raise Bad(400, "targets: wanted a list of texts, came something else")
        call_id = str(said.get("call_id") or uuid.uuid4().hex)[:256]
        desk = self._desk(said)
        try:
            answer = await desk.propose_async(call_id, name, args, targets=targets, effect=said.get("effect"))
        except ValueError as error:  # an effect that does not exist
            raise Bad(400, str(error)) from None
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
        healthy = await self._publisher.healthy()
        return _json({"broker": healthy, "sessions": len(self._desks)}, 200 if healthy else 503)

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
            self._desks[session_id] = desk
            if len(self._desks) > self._max_sessions:
                _, oldest = self._desks.popitem(last=False)
                threading.Thread(target=oldest.close, daemon=True).start()
        self._desks.move_to_end(session_id)
        return desk


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


def _spans(body: Any) -> list[dict[str, Any]]:
    try:
        return [
            span
            for resource in body["resourceSpans"]
            for scope in resource.get("scopeSpans", [])
            for span in scope.get("spans", [])
            if isinstance(span, dict)
        ]
    except (KeyError, TypeError, AttributeError):
        raise Bad(400, "the body: wanted an OTLP request (resourceSpans, scopeSpans, spans), came another") from None


def _attributes(span: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = span.get("attributes")
    return [a for a in found if isinstance(a, dict)] if isinstance(found, list) else []


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


def _json(value: object, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json", headers=headers)
