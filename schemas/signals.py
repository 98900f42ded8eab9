"""What matters across sessions: re-keyed by agent, target, root session, mission or the fleet."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.events import Amount
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

MAX_TARGETS = 8
"""Of one act, in a signal; the rest is left out."""


class SignalScope(StrEnum):
    """What is looked at across sessions; the id within it is the record's key."""

    AGENT = "agent"
    TARGET = "target"
    ROOT = "root"
    """A session and all that it started, by the id of the first one."""
    MISSION = "mission"
    FLEET = "fleet"
    """Everything; its one id is `*`."""


FLEET_ID = "*"


class SignalKind(StrEnum):
    """What a signal reports of a session, or of an agent to the fleet."""

    STARTED = "started"
    """Its first event was seen."""
    DESTRUCTIVE = "destructive"
    """It is about to destroy what somebody would miss."""
    KILLED = "killed"
    RELEASED = "released"
    """An operator took its kill back."""
    SPENT = "spent"
    """It used more since its last signal; `amounts` by resource."""
    PROFILE = "profile"
    """What its last actions were like; `amounts` by tool, and how long they took."""
    STOPPED = "stopped"
    """It was refused something, or killed: once a minute at most. What an agent's sessions told is sent to the fleet in
    one."""


class Signal(Record):
    """One of the few events that matter across sessions. Its id is made of the event's: the same one comes twice."""

    v: int = 1
    signal_id: Id
    kind: Name
    """A SignalKind, or one of a later release, which is passed over."""
    scope: Name
    """A SignalScope: what the key is."""
    id: Id
    session_id: Id
    agent_id: Id = "unknown"
    parent_session_id: Id | None = None
    event_id: Id
    """The event that it was made of."""
    topic: Name | None = None
    """Where that event stands: topic, partition, offset."""
    partition: int | None = None
    offset: int | None = None
    time: EpochMs
    """Event time of that event, on the clock of its agent."""
    action: Name = ""
    target: Name = ""
    """The first of `targets`."""
    targets: Annotated[list[Name], Field(max_length=MAX_TARGETS)] | None = None
    code: Name | None = None
    """Of a kill: what its session is refused with."""
    reason: Text | None = None
    amounts: Annotated[dict[Name, Amount], Field(max_length=64)] | None = None

    def amount(self, name: str, default: float = 0.0) -> float:
        """One of the amounts."""
        return default if self.amounts is None else self.amounts.get(name, default)
