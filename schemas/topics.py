"""The topics and their layout on the broker."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

SETS_KEY: Final = b"topics"
"""The key of the entry of `control` that names the sets of topics: `Topics.entry`."""

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
    older: tuple[str, ...] = ()
    """The prefixes of earlier sets with fewer partitions, the oldest first: `haltline topics grow`."""

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

    @property
    def sets(self) -> "tuple[Topics, ...]":
        """Every set, the oldest first; this one is the last."""
        return (*(Topics(prefix, self.older[:number]) for number, prefix in enumerate(self.older)), self)

    @property
    def older_names(self) -> frozenset[str]:
        """The names of all topics of earlier sets."""
        return frozenset(name for one in self.sets[:-1] for name in one.all)

    @property
    def next(self) -> "Topics":
        """The set that follows this one: `haltline.`, `haltline.2.`, `haltline.3.`."""
        prefixes = (*self.older, self.prefix)
        return Topics(f"{prefixes[0]}{len(prefixes) + 1}.", prefixes)

    @property
    def bridge_group(self) -> str:
        """The consumer group that copies what is published to this set into the next one."""
        return f"{self.prefix}bridge"

    def latest(self, names: Collection[str]) -> "Topics":
        """Return the last of this set and the following ones of which there is one of these topics."""
        following = self.next
        return self if following.actions not in names else following.latest(names)

    def group(self, configured: str, prefix: str) -> str:
        """Return the group of this set's workers, if that of the set with this prefix is configured: `name.2`."""
        prefixes = (*self.older, self.prefix)
        number = prefixes.index(prefix) + 1
        first = configured.removesuffix(f".{number}") if number > 1 else configured
        return first if len(prefixes) == 1 else f"{first}.{len(prefixes)}"

    def entry(self, at_ms: int) -> bytes:
        """The value of the entry of `control` by which everything that starts follows to this set; `at_ms` is the time.

        Commands and services of older releases decode every entry: to them it is a probation of a session `topics`.
        """
        known = {"v": 1, "scope": "session", "id": "topics", "state": "probation", "code": "topics", "since": at_ms}
        why = {"decision_id": "topics", "reason": f"topics in use: {self.prefix}*"}
        return json.dumps({**known, **why, "prefixes": [*self.older, self.prefix]}).encode()

    @classmethod
    def of_entry(cls, value: bytes | None) -> Self | None:
        """Return the topics of such an entry; None if it has no prefixes."""
        try:
            found = json.loads(value or b"null")
        except ValueError:
            return None
        prefixes = found.get("prefixes") if isinstance(found, dict) else None
        if not isinstance(prefixes, list) or not prefixes or not all(isinstance(one, str) for one in prefixes):
            return None
        return cls(prefixes[-1], tuple(prefixes[:-1]))


LAYOUT = tuple(topic.layout for topic in vars(Topics).values() if isinstance(topic, _Topic))
"""Every topic, in the order of the attributes of `Topics`."""
REMOVED: Final = ("opinions",)
"""The topics of earlier releases, without the prefix: audit tables have records of them."""
