"""Signals: the events that matter across sessions, keyed by agent, target, root session, mission or the fleet."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.events import Amount
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

MAX_TARGETS = 8
"""The most targets of one act in a signal; the others are left out."""


class SignalScope(StrEnum):
    """The scope of a signal; the id within it is the record's key."""

    AGENT = "agent"
    TARGET = "target"
    """Also a tree of sessions as the target of calls that start agents: see `tree_of`."""
    ROOT = "root"
    """A tree of sessions, by the id of its root session."""
    MISSION = "mission"
    FLEET = "fleet"
    """The fleet; its one id is `*`."""


FLEET_ID = "*"


LIMIT_SHARE = "limit_share"
LIMITED, FAILED = "limited", "failed"
_TREE, _MAX_ROOT = "tree=", 251


def tree_of(root: str) -> str:
    """The target that calls which start agents have in common in one tree, by the id of its first session."""
    return f"{_TREE}{root[:_MAX_ROOT]}"


def root_of(tree: str) -> str:
    """The id of the first session of a tree, by this target."""
    return tree.removeprefix(_TREE)


class SignalKind(StrEnum):
    """The kind of event that a signal reports, of a session, or of an agent to the fleet."""

    STARTED = "started"
    """The worker processed the session's first event."""
    DESTRUCTIVE = "destructive"
    """The session is about to destroy something of value (not a scratch file, nor its own output)."""
    KILLED = "killed"
    RELEASED = "released"
    """An operator has reset the session's kill."""
    SPENT = "spent"
    """The use of resources since the session's last signal; `amounts` by resource."""
    SPAWNED = "spawned"
    """The session calls a tool that starts an agent: `target` is a digest of its task, `code` the call; the amount
    `limit_share` is the used part of the session's declared limits."""
    RETURNED = "returned"
    """Such a call is over: the amount `failed` or, by a rate limit or a quota, `limited` shows that it failed."""
    ENDED = "ended"
    """The session, which has a parent, is over; the amount `limited` shows that its last turn was refused so."""
    PROMPTED = "prompted"
    """The first session of a tree has a new prompt of its user."""
    STOPPED = "stopped"
    """A call was refused, or the session was killed: at most once a minute. The fleet receives one for all sessions
    of an agent."""


class Signal(Record):
    """An event that matters across sessions. Its id is derived from the event's, so a duplicate has the same."""

    v: int = 1
    signal_id: Id
    kind: Name
    """A SignalKind, or one of another release, which is ignored."""
    scope: Name
    """A SignalScope: the kind of the key."""
    id: Id
    session_id: Id
    agent_id: Id = "unknown"
    parent_session_id: Id | None = None
    event_id: Id
    """The id of the event that it reports."""
    topic: Name | None = None
    """The position of that event: topic, partition, offset."""
    partition: int | None = None
    offset: int | None = None
    time: EpochMs
    """Event time in epoch milliseconds, by the agent's clock."""
    action: Name = ""
    target: Name = ""
    """The first of `targets`."""
    targets: Annotated[list[Name], Field(max_length=MAX_TARGETS)] | None = None
    code: Name | None = None
    """For a kill: the code of the session's refusals."""
    reason: Text | None = None
    amounts: Annotated[dict[Name, Amount], Field(max_length=64)] | None = None

    def amount(self, name: str, default: float = 0.0) -> float:
        """One of the amounts; `default` if it is absent or not a number."""
        return default if self.amounts is None else self.amounts.get(name, default)
