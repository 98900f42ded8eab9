"""Which of what a worker kept counts in the topics as they are now, and which in topics that are no more.

What a session had done is remembered over that: only its offsets are forgotten. To forget the rest as well would give
whoever can delete a topic a way to be counted from nothing, and what was seen is of event time, which goes on. An event
that is published again on the new topic is known by its id, as one that its producer sent twice.

Where the cluster does not tell the ids of topics (the embedded broker, or without the permission), an offset that is
beyond the end of its partition shows that the topic was recreated.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Final

from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.topic_ids import Logs

log = logging.getLogger(__name__)

_OFFSETS_FORGOTTEN: Final = (
    "it is read from its first record on. What sessions are known for stays, their offsets in it are forgotten; what "
    "was on the topic before and was not read is lost"
)
_STATES_LOST: Final = (
    "what sessions were known for is lost, and begins anew with the records from here on; what is in force for them in "
    "control stays"
)


class TopicIncarnations:
    """What one process finds out about it, and tells: once for each topic."""

    def __init__(self, logs: Logs, changelog: str, metrics: Metrics) -> None:
        self._logs = logs
        self._changelog = changelog
        self._counted = metrics.children("topics_made_anew_total")
        self.ends: Mapping[tuple[str, int], int] = {}
        """Where those of the assigned partitions ended that may have been recreated: see `assign`."""
        self.notes: list[str] = []
        """What was found, for people."""
        self._logged: set[str] = set()
        for topic in (*logs.ids, changelog):
            self._counted[topic,].inc(0)  # so that the first one is an increase

    def assign(self, ends: Mapping[tuple[str, int], int], committed: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        """Takes where the assigned partitions of sources end, and what is committed of them: offset, what is beside it.

        An end at or behind what is committed shows nothing: a state includes what was processed and not committed, and
        the broker may not know yet that it has it. Before a partition is read at first, an offset of it is committed.
        """
        self.ends = {
            place: end
            for place, end in ends.items()
            if place not in committed or committed[place][0] > end or self._logs.is_other(place[0], committed[place][1])
        }

    def ends_for(self, partition: int, mark: bytes) -> dict[str, int]:
        """By topic: the first offset that a state of this partition, written with this mark, cannot include."""
        others = self._logs.others(mark)
        ends = {topic: end for (topic, number), end in self.ends.items() if number == partition}
        return ends | dict.fromkeys(others, 0)

    def begins_at(
        self, place: tuple[str, int], committed: int | None, beside: str, marks: Collection[bytes]
    ) -> int | None:
        """Where reading of a source's partition begins, by what was committed; None: at its first record.

        `marks` are those of the states in the partition that were written with other logs than those of now.
        """
        topic, partition = place
        end = self.ends.get(place)
        if committed is None:  # a cluster forgets what was committed of a topic that is deleted
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
                "%s partition %d: LOST %d records: offset %d was committed, and it ends at %d; goes on from there",
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
