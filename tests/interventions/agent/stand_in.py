"""A fake worker for tests of the agent's side: reads records of guards, and sends the decisions of the test."""

import threading
import time
from collections.abc import Callable
from typing import Self, TypeAlias

from confluent_kafka import Consumer, Producer, TopicPartition

from haltline.interventions.agent.testing import decision as scripted
from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState, Feedback, Stage, control_key
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.seals import Sealer
from haltline.schemas.topics import Topics

PARTITIONS = 4

Say: TypeAlias = Callable[[ActionEvent], Decision | Level | None]


class StandIn:
    """Answers every event that awaits a verdict with what `say` gives; None is no answer."""

    def __init__(
        self, bootstrap: str, say: Say | None = None, *, topics: Topics | None = None, sealer: Sealer | None = None
    ) -> None:
        self.topics = topics or Topics()
        self.sealer = sealer
        self.seal_ms: int | None = None  # None: now
        self.events: list[ActionEvent] = []
        self.feedback: list[Feedback] = []
        self._say = say
        at = {"bootstrap.servers": bootstrap}
        self._producer = Producer(at | {"partitioner": "murmur2_random", "linger.ms": 0, "acks": "all"})
        reads = {"group.id": "stand-in", "fetch.wait.max.ms": 5, "enable.auto.commit": False}
        self._consumer = Consumer(at | reads)
        topics_read = (self.topics.actions, self.topics.feedback)
        self._consumer.assign([TopicPartition(t, p, 0) for t in topics_read for p in range(PARTITIONS)])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def of(self, kind: Kind, session_id: str | None = None) -> list[ActionEvent]:
        return [e for e in self.events if e.kind is kind and session_id in {None, e.session_id}]

    def outcomes(self, session_id: str | None = None) -> list[Outcome | None]:
        return [e.outcome for e in self.of(Kind.COMPLETED, session_id)]

    def stages(self, session_id: str | None = None) -> list[Stage]:
        return [f.stage for f in self.feedback if session_id in {None, f.session_id}]

    def send(self, decision: Decision) -> None:
        self._produce(self.topics.interventions, decision.session_id.encode(), decision.to_json())

    def control(self, record: ControlRecord) -> None:
        self._produce(self.topics.control, record.key.encode(), record.to_json())

    def release(self, scope: ScopeKind, scope_id: str) -> None:
        self._produce(self.topics.control, control_key(scope, scope_id).encode(), None)

    def _produce(self, topic: str, key: bytes, value: bytes | None) -> None:
        sealed = () if self.sealer is None else (self.sealer.seal(topic, key, value, self.seal_ms or now_ms()),)
        self._producer.produce(topic, key=key, value=value, headers=list(sealed))
        assert self._producer.flush(10) == 0

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is None or message.error() is not None:
                continue
            if message.topic() == self.topics.feedback:
                self.feedback.append(wire.decode(Feedback, message.value()))
                continue
            event = wire.decode_event(message.value())
            self.events.append(event)
            if not event.await_verdict:
                continue
            result = self._say(event) if self._say is not None else Level.ALLOW
            if isinstance(result, Level):
                result = decision(result, event)
            if result is not None:
                self.send(result)
        self._consumer.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


REASON = "3 deletes on asset_id=fact_sales in 12s"


def decision(level: Level, event: ActionEvent | None = None, *, session_id: str = "s1", age_ms: int = 0) -> Decision:
    """A decision like the worker's; without an event, it is about an earlier one, so that no call waits for it."""
    if event is None:
        earlier = {"event_id": f"earlier-{level}", "session_id": session_id, "time": now_ms()}
        event = ActionEvent(kind=Kind.PROPOSED, **earlier)
    return scripted(
        level,
        event,
        message=f"{level.value}: for the model",
        time=event.time - age_ms,
        decided_at=now_ms(),
        reason=REASON,
    )


def standing(
    scope: ScopeKind = ScopeKind.SESSION,
    scope_id: str = "s1",
    *,
    state: ControlState = ControlState.KILLED,
    code: str = "session_killed_loop_guard",
    stopped: bool = False,
) -> ControlRecord:
    return ControlRecord(
        scope=scope,
        id=scope_id,
        state=state,
        code=code,
        reason=REASON,
        decision_id=f"stands-{scope}-{scope_id}",
        since=now_ms(),
        decided_at=now_ms(),
        stopped_at=now_ms() if stopped else None,
    )


def silent(event: ActionEvent) -> None:
    """Never answers."""


def third_delete_kills() -> Say:
    """The loop guard in small: per session, the third destructive proposal of a target is answered with KILL."""
    seen: dict[tuple[str, str], int] = {}

    def say(event: ActionEvent) -> Level:
        if event.effect is not Effect.DESTRUCTIVE and not event.action.rpartition("__")[2].startswith("delete_"):
            return Level.ALLOW
        key = (event.session_id, str(event.args))
        seen[key] = seen.get(key, 0) + 1
        return Level.KILL if seen[key] >= 3 else Level.ALLOW

    return say
