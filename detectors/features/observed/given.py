"""What is given with an event, or computed for every event."""

from haltline.detectors.features.call import OpenCall, Phase
from haltline.detectors.features.call_tracker import CallTracker
from haltline.detectors.features.tool import KnownTool
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent, Effect, Kind, Usage
from haltline.schemas.findings import Evidence
from haltline.schemas.record import JsonObject, trusting

_evidence = trusting(Evidence)


class Given:
    """The attributes that every observation has. In slots: Python has a fast form for at most 30 other attributes."""

    __slots__ = (
        "_classifier", "action", "args", "call", "calls", "event", "failed", "hint", "index", "is_attempt",
        "is_result",
        "kind", "measured", "offset", "partition", "recalled", "refused", "runs", "step", "text", "time_ms", "tool",
        "topic", "usage",
    )  # fmt: skip

    event: ActionEvent
    """From the core only its fields, `model_extra` and `is_usage_unknown`: see `event_fields`."""
    kind: Kind
    time_ms: int
    """Event time, epoch milliseconds."""
    args: JsonObject | None
    usage: Usage | None
    hint: Effect | None
    """The producer's own statement of the action's effect."""
    call: OpenCall | None
    """The attempt that this is the result of."""
    calls: CallTracker
    """The session's calls, as they were before this event."""
    topic: str
    """Topic of the event; empty: none."""
    partition: int
    offset: int
    is_attempt: bool
    """True once per call: at its proposal, or at its result if it was never proposed."""
    is_result: bool
    """True once per call: when its result is known."""
    recalled: bool
    """Whether calls are stored by their fingerprints, because a rule uses `again`."""
    measured: bool
    """Whether the session's progress is measured too, because a rule uses `novelty`."""
    action: str
    index: int
    """Number of the session's action, from 1; for a result, that of its attempt."""
    step: int
    """Index of the first action of its step: the calls of one model turn are one step.

    Two calls are of one step if the later one's `step` is not greater than the other's `index`.
    """
    tool: KnownTool
    """The known properties of the tool."""
    runs: bool
    """Whether the tool runs a program, a command line or a statement."""
    text: str
    """The command line, statement or program that it runs; empty if none; for a result its beginning."""
    refused: bool
    """The call was not executed."""
    failed: bool
    """The call was executed and did not succeed."""
    _classifier: Classifier

    @property
    def phase(self) -> Phase:
        """The phase of its call."""
        if self.is_attempt:
            return Phase.BOTH if self.is_result else Phase.ATTEMPT
        return Phase.RESULT if self.is_result else Phase.NONE

    @property
    def began_ms(self) -> int:
        """When the call began, epoch milliseconds; for a call that was never proposed, computed from its duration."""
        if self.call is not None:
            return self.call.time_ms
        return self.time_ms - int(self.event.duration_ms or 0) if self.is_result else self.time_ms

    @property
    def evidence(self) -> Evidence:
        """The event itself as evidence."""
        return self.evidence_of(self.event.event_id, self.offset)

    def evidence_of(self, event_id: str, offset: int) -> Evidence:
        """An earlier event of the same session as evidence: all are in the same topic partition."""
        if not self.topic:
            return _evidence({"event_id": event_id, "topic": None, "partition": None, "offset": None})
        place = {"topic": self.topic, "partition": self.partition, "offset": offset}
        return _evidence({"event_id": event_id, **place})
