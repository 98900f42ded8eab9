"""Test messages, marked as such."""

import uuid
from collections.abc import Iterator

from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.streams.notify.kinds import Kind, Planned
from haltline.streams.notify.links import Links
from haltline.streams.notify.notification_text import Message


def samples(channel: str, links: Links, at_ms: int) -> Iterator[Message]:
    """Yield the messages of a test of one channel: an incident, and its end."""
    opened = IncidentRecord(
        incident_id=f"test-{uuid.uuid4().hex[:12]}",
        revision=1,
        change=IncidentChange.OPENED,
        state=IncidentState.OPEN,
        scope=ScopeKind.SESSION,
        scope_id="haltline-notify-test",
        cause="test",
        session_id="haltline-notify-test",
        agent_id="haltline-notify-test",
        level=Level.PAUSE,
        severity=Severity.LOW,
        count=1,
        first_at=at_ms,
        last_at=at_ms,
        changed_at=at_ms,
        summary=f"This is a test of the channel {channel}: nothing has happened.",
        decision_id="test",
    )
    ended = {"revision": 2, "change": IncidentChange.RESOLVED, "state": IncidentState.RESOLVED, "resolution": "test"}
    for kind, record in (
        (Kind.APPROVAL_WANTED, opened),
        (Kind.RESOLVED, opened.model_copy(update=ended)),
    ):
        yield Message(
            message_id=Planned.of(record, kind, channel).notification_id,
            kind=kind,
            record=record,
            at_ms=at_ms,
            session_link=links.session(record),
        )
