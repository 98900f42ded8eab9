"""The text of a notification, for people and for programs. Pure."""

from dataclasses import dataclass
from typing import Any, Final

from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.record import rfc3339
from haltline.streams.notify.kinds import Kind

TYPE: Final = "com.haltline.incident"
SOURCE: Final = "/haltline/incidents"
_MAX_CHARS: Final = 600

_WORDS: Final = {
    Kind.APPROVAL_WANTED: "Approval requested",
    Kind.KILLED: "Killed",
    Kind.RESOLVED: "Incident resolved",
}


@dataclass(frozen=True, kw_only=True)
class Message:
    """One notification of an incident, with its links."""

    message_id: str
    kind: Kind
    record: IncidentRecord
    at_ms: int
    """The time of the record on its topic."""
    session_link: str | None = None
    approval_link: str | None = None

    @property
    def title(self) -> str:
        """The title in one line, such as `Approval requested: repetition in session s1 (PAUSE, high)`."""
        record = self.record
        severity = "" if record.severity is None else f", {record.severity}"
        return f"{_WORDS[self.kind]}: {record.cause} in {record.scope} {record.scope_id} ({record.level}{severity})"

    @property
    def text(self) -> str:
        """The reason of the decision with the highest level, or the comment."""
        return cut(self.record.comment or self.record.summary)

    @property
    def link(self) -> str | None:
        """The address where a person answers, or looks."""
        return self.approval_link or self.session_link

    def plain(self) -> str:
        """Return the message as plain text."""
        facts = [f"{name}: {value}" for name, value in self._facts()]
        links = (("Approve or reject", self.approval_link), ("Open session", self.session_link))
        shown = [f"{text}: {link}" for text, link in links if link is not None]
        return "\n".join([self.text, "", *facts, *([""] if shown else []), *shown])

    def cloud_event(self) -> dict[str, Any]:
        """Return a structured CloudEvent."""
        links = {"session": self.session_link, "approval": self.approval_link}
        return {
            "specversion": "1.0",
            "id": self.message_id,
            "source": SOURCE,
            "type": f"{TYPE}.{self.kind}",
            "subject": self.record.incident_id,
            "time": rfc3339(self.at_ms),
            "datacontenttype": "application/json",
            "data": {
                "kind": self.kind.value,
                "notification_id": self.message_id,
                "incident": self.record.model_dump(mode="json", exclude_none=True),
                "links": {name: link for name, link in links.items() if link is not None},
            },
        }

    def _facts(self) -> list[tuple[str, str]]:
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
