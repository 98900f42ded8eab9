"""Detection of recreated topics: which of a worker's offsets refer to the current topics, and which to deleted ones.

Only offsets are forgotten; the history of a session is kept. Otherwise anyone who can delete a topic could reset all
counts, and the history is in event time, which continues. An event that is published again on the new topic is
recognized by its id, like one that its producer sent twice.

Where the cluster does not report topic ids (the embedded broker, or a missing permission), an offset beyond the end of
its partition shows that the topic was recreated.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Final

from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.topic_ids import Logs

log = logging.getLogger(__name__)

_OFFSETS_FORGOTTEN: Final = (
    "it is read from its first record on. The states of sessions stay, without their offsets in it; records of the "
    "old topic that were not read are lost"
)
_STATES_LOST: Final = (
    "the states of sessions are lost and start empty with the records from here on; their entries in control stay in "
    "force"
)


class TopicIncarnations:
    """The findings of one process, each logged once per topic."""

    def __init__(self, logs: Logs, changelog: str, metrics: Metrics) -> None:
        self._logs = logs
        self._changelog = changelog
        self._counted = metrics.children("topics_made_anew_total")
        self.ends: Mapping[tuple[str, int], int] = {}
        """End offsets of the assigned partitions that may have been recreated: see `assign`."""
        self.notes: list[str] = []
        """Human-readable findings."""
        self._logged: set[str] = set()
        for topic in (*logs.ids, changelog):
            self._counted[topic,].inc(0)  # so that the first one shows as an increase

    def assign(self, ends: Mapping[tuple[str, int], int], committed: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        """Set the end offsets of the assigned source partitions, and their committed offsets with metadata.

        An end at or above the committed offset proves nothing: a state includes what was processed and not committed,
        and the broker may not know its full end yet. Before a partition is first read, an offset of it is committed.
        """
        self.ends = {
            place: end
            for place, end in ends.items()
            if place not in committed or committed[place][0] > end or self._logs.is_other(place[0], committed[place][1])
        }

    def ends_for(self, partition: int, mark: bytes) -> dict[str, int]:
        """Return, by topic, the first offset that a state of this partition with this mark cannot include."""
        others = self._logs.others(mark)
        ends = {topic: end for (topic, number), end in self.ends.items() if number == partition}
        return ends | dict.fromkeys(others, 0)

    def begins_at(
        self, place: tuple[str, int], committed: int | None, beside: str, marks: Collection[bytes]
    ) -> int | None:
        """Return the offset at which to read a source's partition, given its commit; None: at its first record.

        `marks` are those of states in the partition that were written with other logs than the current ones.
        """
        topic, partition = place
        end = self.ends.get(place)
        if committed is None:  # deleting a topic deletes its commits
            if any(topic in self._logs.others(mark) for mark in marks):
                self._log_once(topic, f"topic {topic} was recreated: {_OFFSETS_FORGOTTEN}")
            return None
        if self._logs.has_other_states(beside):
            self._log_once(self._changelog, f"topic {self._changelog} was recreated: {_STATES_LOST}")
        is_beyond = end is not None and committed > end
        is_other = self._logs.is_other(topic, beside)
        if is_other or (is_other is None and is_beyond):
            self._log_once(topic, f"topic {topic} was recreated: {_OFFSETS_FORGOTTEN}")
            return None
        if is_beyond:
            log.error(
                "%s partition %d: LOST %d records: offset %d was committed, and it ends at %d; continues there",
                topic, partition, committed - (end or 0), committed, end,
            )  # fmt: skip
            return end
        return committed

    def _log_once(self, topic: str, note: str) -> None:
        if topic in self._logged:
            return
        self._logged.add(topic)
        log.error("%s", note)
        self._counted[topic,].inc()
        self.notes.append(note)
