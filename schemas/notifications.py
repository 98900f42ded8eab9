"""Who was notified of an incident, as records of the `notifications` topic: the notifier's memory, and audited."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.decisions import Level
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.record import EpochMs, Id, Name, Record, Text


class NotificationOutcome(StrEnum):
    """What became of a notification."""

    SENT = "sent"
    """The receiver has accepted it."""
    FAILED = "failed"
    """The receiver refused it, or did not answer in time; the incident's record is a dead letter."""
    TOO_OLD = "too_old"
    """It was not sent: the change was older than the notifier's `oldest` when it was read."""


class NotificationRecord(Record):
    """One change of one incident to one channel, settled.

    It is in the partition of the incident's record and has its key, so that whoever takes over the partition knows it.
    """

    v: int = 1
    notification_id: Id
    """A hash of incident, revision and channel: the same after a restart, so that receivers know a duplicate."""
    message_id: Id
    """Of the message that it was sent in: its own, or that of a digest of several."""
    incident_id: Id
    revision: Annotated[int, Field(ge=1)]
    change: IncidentChange
    state: IncidentState
    level: Level
    session_id: Id | None = None
    agent_id: Id = "unknown"
    channel: Name
    route: Name
    outcome: NotificationOutcome
    attempts: Annotated[int, Field(ge=0)] = 1
    detail: Text = ""
    """Of a failure: the receiver's answer, without secrets."""
    at: EpochMs
    """Wall clock of the notifier when it was settled."""
    due: EpochMs
    """When it was to be sent: at once, or at the end of a digest's window or of quiet hours."""
    incident: IncidentRecord | None = None
    """How it stood, where the channel repeats what is open."""
