"""What detectors say: a pattern was seen, and this is the evidence."""

from typing import Annotated

from pydantic import Field

from haltline.schemas.ordered import OrderedName
from haltline.schemas.record import EpochMs, Id, Name, Record, Text, Values


class Severity(OrderedName):
    """How bad a finding is, if it is true."""

    LOW = "low"
    """Worth a hint to the agent. Nothing is lost yet."""
    MEDIUM = "medium"
    """Work or money is being wasted; the agent should hear what to do instead."""
    HIGH = "high"
    """It will not end well without someone stepping in."""
    CRITICAL = "critical"
    """Data or a budget is being lost with each further step."""


class Evidence(Record):
    """Where to find one event that shows the pattern."""

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
    """For people."""
    evidence: tuple[Evidence, ...]
    """The events that show it, oldest first; the last one completed the pattern."""
    values: Values = Field(default_factory=dict)
    thresholds: Values = Field(default_factory=dict)
    target: Name | None = None
    """What it is about, where one thing can be named."""
    session_id: Id | None = None
    """Of a pattern across sessions: the session that went on, where that is not the one of the last event."""


class Detection(Record):
    """A Finding on the topic: with the session it is of, also when it led to nothing."""

    v: int = 1
    detection_id: Id
    session_id: Id
    agent_id: Id = "unknown"
    event_id: Id
    time: EpochMs
    finding: Finding
    mode: Name = "enforce"
    decision_id: Id | None = None
    """The decision that it led to, if any."""
    scope: Name | None = None
    """Of a pattern across sessions: what it was seen in, such as `agent`; `session_id` is the one that went on."""
    scope_id: Id | None = None
    policy: Name = ""
    policy_version: int = 0
