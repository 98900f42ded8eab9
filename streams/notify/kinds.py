"""Which changes of an incident send a notification, and to which channels. Pure, so a restart plans the same ones."""

import hashlib
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from haltline.schemas.decisions import Level
from haltline.schemas.incidents import IncidentRecord, IncidentState


class Kind(StrEnum):
    """The kind of a notification; an incident has each at most once."""

    APPROVAL_WANTED = "approval_wanted"
    """The incident asks a person for the first time: to approve a call, or to release a session that is held."""
    KILLED = "killed"
    """A session, or another scope, was killed."""
    RESOLVED = "resolved"
    """An incident that was notified of is over, other than by its kill."""


def ends_by_its_kill(record: IncidentRecord) -> bool:
    """Return whether its kill ended it, in the same step: the notification of the kill is its last one."""
    return (
        record.state is IncidentState.RESOLVED
        and record.level is Level.KILL
        and record.resolution == f"{record.scope}_killed"
    )


def kind_of(record: IncidentRecord) -> Kind | None:
    """Return the kind of notification for the state of an incident; None: hints and refusals notify nobody."""
    if record.state is IncidentState.RESOLVED:
        return Kind.RESOLVED
    if record.level is Level.KILL:
        return Kind.KILLED
    return None if record.request_id is None or record.is_snoozed(record.changed_at) else Kind.APPROVAL_WANTED


class Planned(NamedTuple):
    """One notification: what a channel is notified of."""

    channel: str
    kind: Kind
    notification_id: str

    @classmethod
    def of(cls, record: IncidentRecord, kind: Kind, channel: str) -> "Planned":
        """Return the notification of this kind; an incident has one id for each kind and channel."""
        identity = f"{record.incident_id}|{kind}|{channel}"
        return cls(channel, kind, f"ntf_{hashlib.sha256(identity.encode()).hexdigest()[:32]}")


def plan(record: IncidentRecord, channels: Mapping[str, bool], already: Collection[str]) -> list[Planned]:
    """Return the notifications for the state of an incident, of which those that were sent before are not sent again.

    `channels`: whether each repeats what is open. `already` are those that were notified of this incident: they alone
    are notified of its end, and of an end by its kill only those that would repeat it permanently.
    """
    kind = kind_of(record)
    if kind is None:
        return []
    found: Collection[str] = channels
    if kind is Kind.RESOLVED:
        every = not ends_by_its_kill(record)
        found = [channel for channel in already if channel in channels and (every or channels[channel])]
    return [Planned.of(record, kind, channel) for channel in found]
