"""An event as detectors see it: with what the policy knows of the tool and what the session knows of the call."""

from dataclasses import dataclass, field
from enum import StrEnum

from haltline.detectors.classify import Classifier, Destroyed
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.findings import Evidence

MAX_OPEN_CALLS = 64
"""Calls that are remembered until they complete, the oldest forgotten first."""


class Phase(StrEnum):
    """Where in the life of a call an event stands."""

    ATTEMPT = "attempt"
    """The session says what it is about to do."""
    RESULT = "result"
    """What came of an attempt that was seen."""
    BOTH = "both"
    """A completed call that was never proposed: the attempt and its result at once."""
    NONE = "none"
    """Not about a call."""


@dataclass(slots=True)
class Call:
    """An attempt that is remembered until its result comes. Plain JSON values: part of the session's state."""

    time_ms: int
    event_id: str
    offset: int
    action: str
    effect: str
    destroys: list[list[str]]
    done: bool = False
    """Its result was seen: a late attempt of the same call is not counted again."""


@dataclass(slots=True)
class Calls:
    """The calls of a session, joined by call id."""

    by_id: dict[str, Call] = field(default_factory=dict)

    def phase(self, event: ActionEvent) -> tuple[Phase, Call | None]:
        """Where the event stands, and the attempt that it is the result of."""
        if event.kind is Kind.PROPOSED:
            known = self.by_id.get(event.call_id) if event.call_id else None
            return (Phase.NONE, known) if known is not None and known.done else (Phase.ATTEMPT, None)
        if event.kind is not Kind.COMPLETED:
            return Phase.NONE, None
        call = self.by_id.get(event.call_id) if event.call_id else None
        if call is None:
            return Phase.BOTH, None
        return (Phase.NONE, call) if call.done else (Phase.RESULT, call)

    def note(self, act: "Act") -> None:
        """Remembers an attempt, or that its result has come; drops the oldest beyond the bound."""
        call_id = act.event.call_id
        if call_id is None or act.phase is Phase.NONE:
            return
        if act.phase is Phase.RESULT:
            self.by_id[call_id].done = True
            return
        self.by_id[call_id] = Call(
            time_ms=act.time_ms,
            event_id=act.event.event_id,
            offset=act.offset,
            action=act.action,
            effect=act.effect.value,
            destroys=[[d.verb, d.target, d.badness.name] for d in act.destroys],
            done=act.phase is Phase.BOTH,
        )
        if len(self.by_id) > MAX_OPEN_CALLS:
            del self.by_id[next(iter(self.by_id))]


class Act:
    """One event of a session, read by the policy. Features are worked out when first asked for."""

    __slots__ = (
        "_classifier",
        "_destroys",
        "_effect",
        "action",
        "call",
        "event",
        "offset",
        "partition",
        "phase",
        "time_ms",
        "topic",
    )

    def __init__(
        self,
        event: ActionEvent,
        *,
        classifier: Classifier,
        phase: Phase,
        call: Call | None = None,
        topic: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.event = event
        self.time_ms = event.time
        """Event time, epoch milliseconds."""
        self.phase = phase
        self.call = call
        """The attempt that this is the result of."""
        self.action = event.action or (call.action if call else "")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self._classifier = classifier
        self._effect: Effect | None = None
        self._destroys: tuple[Destroyed, ...] | None = None

    @property
    def is_attempt(self) -> bool:
        """True once for each call: at its proposal, or at its result when it was never proposed."""
        return self.phase is Phase.ATTEMPT or self.phase is Phase.BOTH

    @property
    def is_result(self) -> bool:
        """True once for each call: when what came of it is known."""
        return self.phase is Phase.RESULT or self.phase is Phase.BOTH

    @property
    def failed(self) -> bool:
        """The call was executed and did not succeed."""
        return self.event.outcome is Outcome.ERROR or self.event.outcome is Outcome.TIMEOUT

    @property
    def refused(self) -> bool:
        """The call was never executed."""
        return self.event.outcome is Outcome.REFUSED

    @property
    def effect(self) -> Effect:
        """What the action does: the policy's reading, raised by the producer's hint, never lowered."""
        if self._effect is None:
            self._effect = self._classifier.effect(self.event, self.action)
        return self._effect

    @property
    def destroys(self) -> tuple[Destroyed, ...]:
        """What the action would take away; empty for nearly every action."""
        if self._destroys is None:
            self._destroys = self._classifier.destroys(self.event, self.action)
        return self._destroys

    @property
    def evidence(self) -> Evidence:
        """The event itself as evidence."""
        return self.evidence_of(self.event.event_id, self.offset)

    def evidence_of(self, event_id: str, offset: int) -> Evidence:
        """An earlier event of the same session as evidence: all are on the same topic partition."""
        if not self.topic:
            return Evidence(event_id=event_id)
        return Evidence(event_id=event_id, topic=self.topic, partition=self.partition, offset=offset)
