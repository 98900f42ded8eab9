"""The topics, and how each one is laid out on the broker."""

from dataclasses import dataclass
from enum import StrEnum


class Cleanup(StrEnum):
    """What the broker does with old records."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, kw_only=True)
class TopicLayout:
    """One topic: its name without the prefix, and what the broker must know of it."""

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
        "what agents are about to do, and the results",
        max_message_bytes=_ACTIONS_BYTES,
    ),
    _kept("detections", _ONE_MONTH_HOURS, "every finding, also those that led to nothing"),
    _kept("interventions", _ONE_MONTH_HOURS, "decisions, to the agent's side"),
    _kept("feedback", _ONE_MONTH_HOURS, "what the agent's side answers"),
    _kept("incidents", _ONE_MONTH_HOURS, "what belongs together of the decisions, and how it stands"),
    _kept("notifications", _ONE_MONTH_HOURS, "who was notified of an incident, and who could not be"),
    _kept("commands", _ONE_MONTH_HOURS, "what operators ask for"),
    _kept("signals", _ONE_WEEK_HOURS, "the few events that matter across sessions"),
    _kept("opinions", _ONE_MONTH_HOURS, "a model's second opinions on findings in doubt"),
    _compacted("control", "what is killed, frozen or on probation now"),
    _compacted("policies", "policy documents"),
    _kept("dead-letter", _ONE_MONTH_HOURS, "what could not be read", max_message_bytes=_DEAD_LETTER_BYTES),
)


@dataclass(frozen=True)
class Topics:
    """The full topic names under one prefix.

    All are partitioned alike, by session id with the murmur2 partitioner (the Java
    client's default, `murmur2_random` in librdkafka), so that what belongs to one
    session is on one partition number.
    """

    prefix: str = "haltline."

    @property
    def actions(self) -> str:
        """What agents do."""
        return f"{self.prefix}actions"

    @property
    def detections(self) -> str:
        """What detectors saw."""
        return f"{self.prefix}detections"

    @property
    def interventions(self) -> str:
        """What was decided."""
        return f"{self.prefix}interventions"

    @property
    def feedback(self) -> str:
        """What the agent's side answered."""
        return f"{self.prefix}feedback"

    @property
    def incidents(self) -> str:
        """How each incident stands."""
        return f"{self.prefix}incidents"

    @property
    def notifications(self) -> str:
        """Who was notified of them."""
        return f"{self.prefix}notifications"

    @property
    def commands(self) -> str:
        """What operators asked for."""
        return f"{self.prefix}commands"

    @property
    def signals(self) -> str:
        """What matters across sessions."""
        return f"{self.prefix}signals"

    @property
    def opinions(self) -> str:
        """Second opinions on findings in doubt."""
        return f"{self.prefix}opinions"

    @property
    def control(self) -> str:
        """What holds now."""
        return f"{self.prefix}control"

    @property
    def policies(self) -> str:
        """Policy documents."""
        return f"{self.prefix}policies"

    @property
    def dead_letter(self) -> str:
        """What could not be read."""
        return f"{self.prefix}dead-letter"

    @property
    def session_sources(self) -> tuple[str, ...]:
        """The topics that a worker reads into its states."""
        return (self.actions, self.commands, self.feedback, self.signals, self.opinions)

    @property
    def all(self) -> tuple[str, ...]:
        """Every topic, in the order of LAYOUT."""
        return tuple(self.prefix + layout.name for layout in LAYOUT)
