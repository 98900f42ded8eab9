"""PagerDuty's Events API v2: an incident there has the id of ours."""

import hashlib
from typing import Any, Final

from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentState
from haltline.schemas.record import rfc3339
from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Secrets
from haltline.streams.notify.channels.http import Http, HttpSender
from haltline.streams.notify.config import Kind
from haltline.streams.notify.notification_text import Change, Message, cut, severity_of

_SEVERITY: Final = {
    Severity.LOW: "info",
    Severity.MEDIUM: "warning",
    Severity.HIGH: "error",
    Severity.CRITICAL: "critical",
}
_MAX_KEY_CHARS: Final = 255


class PagerDuty(HttpSender):
    """One service, determined by the routing key."""

    def __init__(self, channel: config.PagerDuty, secrets: Secrets) -> None:
        self._key = secrets.read(channel.routing_key_file)
        self._http = Http(channel.url, secrets, channel.timeout.total_seconds())

    def send(self, message: Message) -> None:
        """Send a message. A duplicate has the same `dedup_key` and changes nothing."""
        for change in message.changes:
            self._post(_event(change, self._key))


def _event(change: Change, key: str) -> dict[str, Any]:
    record = change.record
    if record.state is IncidentState.RESOLVED:
        action = "resolve"
    else:
        action = "acknowledge" if change.kind is Kind.ACKNOWLEDGED else "trigger"
    event: dict[str, Any] = {"routing_key": key, "event_action": action, "dedup_key": _dedup_key(record.incident_id)}
    if action != "trigger":
        return event
    links = [{"href": link, "text": text} for text, link in change.links()]
    return {
        **event,
        "payload": {
            "summary": cut(f"{change.title}: {change.text}", 1024),
            "source": cut(record.agent_id, 255),
            "severity": _SEVERITY[severity_of(record)],
            "timestamp": rfc3339(record.changed_at),
            "component": cut(f"{record.scope}:{record.scope_id}", 255),
            "group": cut(record.mission_id or record.agent_id, 255),
            "class": cut(record.cause, 255),
            "custom_details": dict(change.facts()),
        },
        "client": "haltline",
        **({"links": links} if links else {}),
    }


def _dedup_key(incident_id: str) -> str:
    return incident_id if len(incident_id) <= _MAX_KEY_CHARS else hashlib.sha256(incident_id.encode()).hexdigest()
