"""The topics and their layout on the broker."""

from dataclasses import dataclass
from enum import StrEnum


class Cleanup(StrEnum):
    """The broker's cleanup of old records."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, kw_only=True)
class TopicLayout:
    """One topic: its name without the prefix, and its settings on the broker."""

    name: str
    cleanup: Cleanup
    retention_hours: int | None
    max_message_bytes: int
    what: str


_MIB = 1024 * 1024
_ONE_WEEK_HOURS = 7 * 24
_ONE_MONTH_HOURS = 30 * 24

# A record that is too large to be an event must still reach the dead letter topic,
# whole; so actions takes more than an event may have, and dead-letter takes that.
_ACTIONS_BYTES = 12 * _MIB
_DEAD_LETTER_BYTES = 13 * _MIB
_OTHER_BYTES = 2 * _MIB


def _kept(name: str, hours: int, what: str, *, max_message_bytes: int = _OTHER_BYTES) -> TopicLayout:
    return TopicLayout(
        name=name,
        cleanup=Cleanup.DELETE,
        retention_hours=hours,
        max_message_bytes=max_message_bytes,
        what=what,
    )


def _compacted(name: str, what: str) -> TopicLayout:
    return TopicLayout(
        name=name, cleanup=Cleanup.COMPACT, retention_hours=None, max_message_bytes=_OTHER_BYTES, what=what
    )


LAYOUT = (
    _kept(
        "actions",
        _ONE_WEEK_HOURS,
        "proposed actions of agents, and their results",
        max_message_bytes=_ACTIONS_BYTES,
    ),
    _kept("detections", _ONE_MONTH_HOURS, "every finding, including those without a decision"),
    _kept("interventions", _ONE_MONTH_HOURS, "decisions, to the agent's side"),
    _kept("feedback", _ONE_MONTH_HOURS, "acknowledgements and answers of the agent's side"),
    _kept("incidents", _ONE_MONTH_HOURS, "incidents: related decisions and their state"),
    _kept("notifications", _ONE_MONTH_HOURS, "notifications of incidents, delivered or failed"),
    _kept("commands", _ONE_MONTH_HOURS, "commands of operators"),
    _kept("signals", _ONE_WEEK_HOURS, "events that matter across sessions"),
    _kept("opinions", _ONE_MONTH_HOURS, "a model's second opinions on findings in doubt"),
    _compacted("control", "sessions that are killed, frozen or on probation"),
    _compacted("policies", "policy documents"),
    _kept("dead-letter", _ONE_MONTH_HOURS, "records that could not be read", max_message_bytes=_DEAD_LETTER_BYTES),
)


class _Name:
    """A topic's full name as an attribute: the prefix and the attribute's name with dashes."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name.replace("_", "-")

    def __get__(self, topics: "Topics", owner: type) -> str:
        return topics.prefix + self._name


@dataclass(frozen=True)
class Topics:
    """The full topic names under one prefix.

    All use the murmur2 partitioner (the Java client's default, `murmur2_random` in librdkafka), so that records with
    the same session id as key have the same partition number on each.
    """

    prefix: str = "haltline."

    actions = _Name()
    """Events of agents."""
    detections = _Name()
    """Findings of detectors."""
    interventions = _Name()
    """Decisions."""
    feedback = _Name()
    """Feedback of the agent's side."""
    incidents = _Name()
    """The state of each incident."""
    notifications = _Name()
    """Notifications of incidents."""
    commands = _Name()
    """Operators' acts."""
    signals = _Name()
    """Events that matter across sessions."""
    opinions = _Name()
    """Second opinions on findings in doubt."""
    control = _Name()
    """Restrictions in force."""
    policies = _Name()
    """Policy documents."""
    dead_letter = _Name()
    """Records that could not be processed."""

    @property
    def session_sources(self) -> tuple[str, ...]:
        """The topics from which a worker builds session states."""
        return (self.actions, self.commands, self.feedback, self.signals, self.opinions)

    @property
    def all(self) -> tuple[str, ...]:
        """Every topic, in the order of LAYOUT."""
        return tuple(self.prefix + layout.name for layout in LAYOUT)
