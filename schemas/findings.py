"""Findings of detectors: patterns, with the events that show them."""

from typing import Annotated

from pydantic import Field

from haltline.schemas.ordered import OrderedName
from haltline.schemas.record import EpochMs, Id, Name, Record, Text, Values


class Severity(OrderedName):
    """The severity of a finding, if it is true."""

    LOW = "low"
    """Worth a hint to the agent; nothing is lost yet."""
    MEDIUM = "medium"
    """Work or money is being wasted; the agent needs advice."""
    HIGH = "high"
    """The session will not recover without an intervention."""
    CRITICAL = "critical"
    """Data or a budget is being lost with each further step."""


class Evidence(Record):
    """The position of one event that shows the pattern."""

    event_id: Id
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


class Finding(Record):
    """A pattern that a detector saw in one session. Frozen, compared by value."""

    detector: Id
    detector_version: int = 1
    code: Name
    """The kind of finding, such as `loop_suspected` or `loop_detected`; stable, for machines."""
    severity: Severity
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    reason: Text
    """Human-readable reason."""
    evidence: tuple[Evidence, ...]
    """The events that show it, oldest first; the last one completed the pattern."""
    values: Values = Field(default_factory=dict)
    thresholds: Values = Field(default_factory=dict)
    target: Name | None = None
    """The one thing that it is about, if there is one."""
    session_id: Id | None = None
    """For a pattern across sessions: the session that continued it, if it is not the last event's."""


class Detection(Record):
    """A Finding as a record, with its session; also if no decision followed."""

    v: int = 1
    detection_id: Id
    session_id: Id
    agent_id: Id = "unknown"
    event_id: Id
    time: EpochMs
    finding: Finding
    mode: Name = "enforce"
    decision_id: Id | None = None
    """The decision that followed, if any."""
    scope: Name | None = None
    """For a pattern across sessions: its scope, such as `agent`. `session_id` is the session that continued it."""
    scope_id: Id | None = None
    policy: Name = ""
    policy_version: int = 0
