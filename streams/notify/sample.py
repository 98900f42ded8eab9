"""Test messages, marked as such."""

import uuid

from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.streams.notify.config import Config, Route
from haltline.streams.notify.links import Links
from haltline.streams.notify.notification_text import Change, Message
from haltline.streams.notify.routes import notification_id


def samples(config: Config, route: Route, channel: str, links: Links, at_ms: int) -> list[Message]:
    """Return the messages of a test of a route to one channel; for receivers with incidents, also their end."""
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
        summary=f"This is a test of the route {route.name}: nothing has happened.",
        decision_id="test",
    )
    records = [opened]
    if config.channels[channel].keeps_state:
        ended = {
            "revision": 2,
            "change": IncidentChange.RESOLVED,
            "state": IncidentState.RESOLVED,
            "resolution": "test",
        }
        records.append(opened.model_copy(update=ended))
    return [
        Message.of(
            [
                Change(
                    notification_id=notification_id(record, channel), record=record, session_link=links.session(record)
                )
            ],
            at_ms,
        )
        for record in records
    ]
