"""Prometheus' Alertmanager, API v2: an alert for each open incident, ended when it is resolved."""

import time
from datetime import timedelta
from typing import Any, Final

import orjson

from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.record import rfc3339
from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Secrets
from haltline.streams.notify.channels.http import Http
from haltline.streams.notify.kinds import ends_by_its_kill
from haltline.streams.notify.notification_text import Message, severity_of

_LASTS: Final = timedelta(days=7)
"""The validity of an alert: without an end, Alertmanager would resolve it after five minutes."""
_LASTS_AFTER_KILL: Final = timedelta(hours=1)
"""A kill ends its incident at once, and Alertmanager never sends an alert that ends while it waits for the group."""


class Alertmanager:
    """Alerts with the same labels are the same, so a duplicate changes nothing."""

    def __init__(self, channel: config.Alertmanager, secrets: Secrets) -> None:
        self._labels = channel.labels
        self._headers = {"content-type": "application/json"}
        if channel.token_file is not None:
            self._headers["authorization"] = f"Bearer {secrets.read(channel.token_file)}"
        self._http = Http(f"{channel.url.rstrip('/')}/api/v2/alerts", secrets, channel.timeout.total_seconds())
        self.repeat_s = channel.repeat.total_seconds()

    def send(self, message: Message) -> None:
        """Send the alerts of a message."""
        self.repeat([message])

    def repeat(self, messages: list[Message]) -> None:
        """Send the present alerts of these incidents."""
        alerts = [alert for message in messages for alert in self._alerts(message)]
        self._http.post(orjson.dumps(alerts), self._headers)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _alerts(self, message: Message) -> list[dict[str, Any]]:
        """Return the alert, and the ends of those with lower severities: severity is part of an alert's identity."""
        record = message.record
        current = severity_of(record)
        by_kill = ends_by_its_kill(record)
        now_ms = time.time_ns() // 1_000_000
        is_open = (record.state is not IncidentState.RESOLVED and not record.is_snoozed(now_ms)) or by_kill
        ended = [severity for severity in Severity if severity < current or (severity is current and not is_open)]
        # An agent's clock may be ahead, and an end in the future would not be an end yet.
        alerts = [self._alert(message, severity, min(record.changed_at, now_ms)) for severity in ended]
        until_ms = now_ms + round((_LASTS_AFTER_KILL if by_kill else _LASTS).total_seconds() * 1000)
        return [*alerts, self._alert(message, current, until_ms)] if is_open else alerts

    def _alert(self, message: Message, severity: Severity, ends_ms: int) -> dict[str, Any]:
        record = message.record
        alert = {
            "summary": message.title,
            "description": message.text,
            "approval": message.approval_link,
            "session": record.session_id,
            "level": record.level.value,
        }
        return {
            "labels": {**self._labels, **_identity(record), "severity": severity.value},
            "annotations": {name: value for name, value in alert.items() if value},
            # An end before the start is refused.
            "startsAt": rfc3339(min(record.first_at, ends_ms - 1)),
            "endsAt": rfc3339(ends_ms),
            **({} if message.link is None else {"generatorURL": message.link}),
        }


def senders(channel: config.Alertmanager, secrets: Secrets) -> tuple[Alertmanager]:
    """Return the sender of a channel. Raises ValueError, OSError."""
    return (Alertmanager(channel, secrets),)


def _identity(record: IncidentRecord) -> dict[str, str]:
    """Return the labels that do not change while it is open."""
    return {
        "alertname": "HaltlineIncident",
        "incident_id": record.incident_id,
        "cause": record.cause,
        "scope": record.scope.value,
        "scope_id": record.scope_id,
    }
