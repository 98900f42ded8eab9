"""Notifications of incidents and calls of actuators, as records of the `notifications` topic: audited.

They are the notifier's state, too.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.record import EpochMs, Id, Name, Record, Text


class NotificationOutcome(StrEnum):
    """The result of a notification."""

    SENT = "sent"
    """The receiver accepted it."""
    FAILED = "failed"
    """The receiver refused it, or did not answer in time; the incident's record is a dead letter."""
    TOO_OLD = "too_old"
    """It was not sent: the change was older than the notifier's `oldest` when it was read."""


class OrderedKill(Record):
    """The kill that an actuator was called for."""

    scope: ScopeKind
    id: Id
    """The session's id, or the agent's."""
    decision_id: Id
    by: Name
    """The operator, or `haltline`."""
    disarm: bool = False
    """It only keeps something from starting the agent again, so it confirms no kill."""


class NotificationRecord(Record):
    """The final result for one change of one incident on one channel, or of one call of an actuator.

    It has the key and the partition of the incident's record, so that the partition's next consumer can read it.
    """

    v: int = 1
    notification_id: Id
    """A hash of incident, kind and channel: the same after a restart, so that receivers detect duplicates."""
    incident_id: Id
    """Of an actuator: the kill's decision, as for an incident that its kill has ended."""
    revision: Annotated[int, Field(ge=1)]
    change: IncidentChange
    state: IncidentState
    level: Level
    session_id: Id | None = None
    agent_id: Id = "unknown"
    channel: Name
    """The channel's name, with `:2` and so on for a further URL of apprise; or the actuator's."""
    outcome: NotificationOutcome
    attempts: Annotated[int, Field(ge=0)] = 1
    detail: Text = ""
    """For a failure, and of an actuator: the receiver's answer, without secrets."""
    at: EpochMs
    """Wall clock of the notifier at the final result."""
    due: EpochMs
    """When it is due: at the time of the incident's record, or of the kill."""
    incident: IncidentRecord | None = None
    """The incident's state, if the channel repeats open incidents."""
    kill: OrderedKill | None = None
    """Of an actuator: the kill."""
