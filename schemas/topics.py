"""The topics and their layout on the broker."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SETS_KEY: Final = b"topics"
"""The key of an entry of `control` that earlier releases wrote when they moved to topics with more partitions."""

_MIB = 1024 * 1024
_ONE_WEEK_HOURS = 7 * 24
_ONE_MONTH_HOURS = 30 * 24

# A record that is too large to be an event must still reach the dead letter topic,
# whole; so actions takes more than an event may have, and dead-letter takes that.
_ACTIONS_BYTES = 12 * _MIB
_DEAD_LETTER_BYTES = 13 * _MIB
_OTHER_BYTES = 2 * _MIB


class Cleanup(StrEnum):
    """The broker's cleanup of old records."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True)
class TopicLayout:
    """One topic: its name without the prefix, what its records are, and its settings on the broker."""

    name: str
    what: str
    retention_hours: int | None = _ONE_MONTH_HOURS
    """None: compacted, so that the last record of each key is kept."""
    max_message_bytes: int = _OTHER_BYTES

    @property
    def cleanup(self) -> Cleanup:
        """The broker's cleanup of the topic."""
        return Cleanup.COMPACT if self.retention_hours is None else Cleanup.DELETE


class _Topic:
    """A topic's full name as an attribute: the prefix and the attribute's name with dashes."""

    def __init__(
        self, what: str, retention_hours: int | None = _ONE_MONTH_HOURS, max_message_bytes: int = _OTHER_BYTES
    ) -> None:
        self._settings = what, retention_hours, max_message_bytes

    def __set_name__(self, owner: type, name: str) -> None:
        self.layout = TopicLayout(name.replace("_", "-"), *self._settings)

    def __get__(self, topics: "Topics", owner: type) -> str:
        return topics.prefix + self.layout.name


@dataclass(frozen=True)
class Topics:
    """The full topic names under one prefix.

    All use the murmur2 partitioner (the Java client's default, `murmur2_random` in librdkafka), so that records with
    the same session id as key have the same partition number on each.
    """

    prefix: str = "haltline."

    actions = _Topic("proposed actions of agents, and their results", _ONE_WEEK_HOURS, _ACTIONS_BYTES)
    detections = _Topic("every finding, including those without a decision")
    interventions = _Topic("decisions, to the agent's side")
    feedback = _Topic("acknowledgements and answers of the agent's side")
    incidents = _Topic("incidents: related decisions and their state")
    notifications = _Topic("notifications of incidents, delivered or failed")
    commands = _Topic("commands of operators")
    signals = _Topic("events that matter across sessions", _ONE_WEEK_HOURS)
    control = _Topic("sessions that are killed, frozen or on probation", None)
    policies = _Topic("policy documents", None)
    dead_letter = _Topic("records that could not be read", max_message_bytes=_DEAD_LETTER_BYTES)

    @property
    def session_sources(self) -> tuple[str, ...]:
        """The topics from which a worker builds session states."""
        return (self.actions, self.commands, self.feedback, self.signals)

    @property
    def all(self) -> tuple[str, ...]:
        """Every topic, in the order of LAYOUT."""
        return tuple(self.prefix + layout.name for layout in LAYOUT)

    def grown(self, entry: bytes | None) -> str:
        """Return why these topics are not used, by the value of the entry under SETS_KEY; empty if they are."""
        try:
            found = json.loads(entry or b"null")
        except ValueError:
            return ""
        prefixes = found.get("prefixes") if isinstance(found, dict) else None
        if not isinstance(prefixes, list) or not prefixes or prefixes[-1] == self.prefix:
            return ""
        return (
            f"topics {self.prefix}*: expected the ones in use, got some that an earlier release has grown to "
            f"{prefixes[-1]}*: set --prefix {prefixes[-1]} (HALTLINE_PREFIX, kafka.prefix); a group of workers that is "
            "set ends with the same number"
        )


LAYOUT = tuple(topic.layout for topic in vars(Topics).values() if isinstance(topic, _Topic))
"""Every topic, in the order of the attributes of `Topics`."""
REMOVED: Final = ("opinions",)
"""The topics of earlier releases, without the prefix: audit tables have records of them."""
