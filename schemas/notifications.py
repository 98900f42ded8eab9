"""Notifications of incidents, as records of the `notifications` topic: the notifier's state, and audited."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.decisions import Level
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


class NotificationRecord(Record):
    """The final result for one change of one incident on one channel.

    It has the key and the partition of the incident's record, so that the partition's next consumer can read it.
    """

    v: int = 1
    notification_id: Id
    """A hash of incident, kind and channel: the same after a restart, so that receivers detect duplicates."""
    incident_id: Id
    revision: Annotated[int, Field(ge=1)]
    change: IncidentChange
    state: IncidentState
    level: Level
    session_id: Id | None = None
    agent_id: Id = "unknown"
    channel: Name
    """The channel's name; with `:2` and so on for a further URL of apprise."""
    outcome: NotificationOutcome
    attempts: Annotated[int, Field(ge=0)] = 1
    detail: Text = ""
    """For a failure: the receiver's answer, without secrets."""
    at: EpochMs
    """Wall clock of the notifier at the final result."""
    due: EpochMs
    """When it is due: at the time of the incident's record."""
    incident: IncidentRecord | None = None
    """The incident's state, if the channel repeats open incidents."""
