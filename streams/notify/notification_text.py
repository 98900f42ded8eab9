"""The text of a notification, for people and for programs. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.record import rfc3339
from haltline.streams.notify.config import Kind
from haltline.streams.notify.routes import kind_of

TYPE: Final = "com.haltline.incident"
SOURCE: Final = "/haltline/incidents"
_MAX_LINES: Final = 20
_MAX_CHARS: Final = 600

_WORDS: Final = {
    Kind.OPENED: "Incident opened",
    Kind.ESCALATED: "Incident escalated",
    Kind.APPROVAL_WANTED: "Approval requested",
    Kind.APPROVAL_CLOSED: "Approval closed",
    Kind.ACKNOWLEDGED: "Incident acknowledged",
    Kind.RESOLVED: "Incident resolved",
    Kind.ASSIGNED: "Incident assigned",
    Kind.COMMENTED: "Incident commented",
    Kind.COUNTED: "Incident continues",
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of an incident, with its links."""

    notification_id: str
    record: IncidentRecord
    session_link: str | None = None
    approval_link: str | None = None

    @property
    def kind(self) -> Kind:
        """The kind of change, for routes."""
        return kind_of(self.record)

    @property
    def title(self) -> str:
        """The title in one line, such as `Approval wanted: repetition in session s1 (PAUSE, high)`."""
        record = self.record
        severity = "" if record.severity is None else f", {record.severity}"
        return f"{_WORDS[self.kind]}: {record.cause} in {record.scope} {record.scope_id} ({record.level}{severity})"

    @property
    def text(self) -> str:
        """The reason of the decision with the highest level, or the comment."""
        return cut(self.record.comment or self.record.summary)

    def facts(self) -> list[tuple[str, str]]:
        """Return names and values of the main facts."""
        record = self.record
        facts = [
            ("Agent", record.agent_id),
            ("Session", record.session_id),
            ("Mission", record.mission_id),
            ("Target", record.target),
            ("Decisions", str(record.count)),
            ("First", rfc3339(record.first_at)),
            ("Last", rfc3339(record.last_at)),
            ("Assigned to", record.assignee),
            ("By", record.by),
            ("Resolution", record.resolution),
            ("Approval", record.request_id),
            ("Incident", record.incident_id),
        ]
        return [(name, cut(value, 200)) for name, value in facts if value]

    def links(self) -> list[tuple[str, str]]:
        """Return texts and addresses of the links."""
        links = (("Approve or reject", self.approval_link), ("Open session", self.session_link))
        return [(text, link) for text, link in links if link is not None]

    def data(self) -> dict[str, Any]:
        """Return the data for programs: the record, the kind of change and the links."""
        links = {"session": self.session_link, "approval": self.approval_link}
        return {
            "kind": self.kind.value,
            "notification_id": self.notification_id,
            "incident": self.record.model_dump(mode="json", exclude_none=True),
            "links": {name: link for name, link in links.items() if link is not None},
        }


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message: one change, or a digest of several, the worst first."""

    message_id: str
    changes: tuple[Change, ...]
    at_ms: int
    """The time of the latest change."""

    @classmethod
    def of(cls, changes: Sequence[Change], at_ms: int) -> "Message":
        """Return the message of one change, or a digest of several with an id derived from theirs."""
        if len(changes) == 1:
            return cls(message_id=changes[0].notification_id, changes=tuple(changes), at_ms=at_ms)
        ids = "|".join(sorted(change.notification_id for change in changes))
        worst = sorted(changes, key=lambda change: (-change.record.level.rank, change.record.changed_at))
        return cls(message_id=f"dig_{hashlib.sha256(ids.encode()).hexdigest()[:32]}", changes=tuple(worst), at_ms=at_ms)

    @property
    def single(self) -> Change | None:
        """The only change; None for a digest."""
        return self.changes[0] if len(self.changes) == 1 else None

    @property
    def title(self) -> str:
        """The title in one line."""
        if (single := self.single) is not None:
            return single.title
        incidents = len({change.record.incident_id for change in self.changes})
        return (
            f"{len(self.changes)} changes of {incidents} incident{'' if incidents == 1 else 's'}, "
            f"up to {self.changes[0].record.level}"
        )

    def lines(self) -> list[str]:
        """Return the lines of a digest: one for each of the worst changes, and the number of others."""
        lines = [change.title for change in self.changes[:_MAX_LINES]]
        more = len(self.changes) - len(lines)
        return [*lines, f"and {more} more"] if more > 0 else lines

    def plain(self) -> str:
        """Return the message as plain text."""
        single = self.single
        if single is None:
            return "\n".join(self.lines())
        facts = [f"{name}: {value}" for name, value in single.facts()]
        links = [f"{text}: {link}" for text, link in single.links()]
        return "\n".join([single.text, "", *facts, *([""] if links else []), *links])

    def cloud_event(self) -> dict[str, Any]:
        """Return a structured CloudEvent."""
        single = self.single
        event: dict[str, Any] = {
            "specversion": "1.0",
            "id": self.message_id,
            "source": SOURCE,
            "type": f"{TYPE}.digest" if single is None else f"{TYPE}.{single.kind}",
            "time": rfc3339(self.at_ms),
            "datacontenttype": "application/json",
        }
        if single is None:
            return {**event, "data": {"changes": [change.data() for change in self.changes]}}
        return {**event, "subject": single.record.incident_id, "data": single.data()}


def severity_of(record: IncidentRecord) -> Severity:
    """Return the severity of an incident; if it has none, one derived from its level."""
    if record.severity is not None:
        return record.severity
    return (Severity.LOW, Severity.LOW, Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.HIGH)[
        min(record.level.rank, 5)
    ]


def cut(text: str, most: int = _MAX_CHARS) -> str:
    """Return the text, truncated to a length."""
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
