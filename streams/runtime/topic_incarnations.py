"""Detection of recreated topics, at the start of a worker: where it reads on.

States whose offsets refer to a deleted topic begin anew; what is killed, frozen or on probation stays so.

Where the cluster does not report topic ids (the embedded broker, or a missing permission), an offset beyond the end of
its partition shows that the topic was recreated.
"""

import logging
from collections.abc import Collection
from typing import Final

from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.topic_ids import Logs

log = logging.getLogger(__name__)

_OFFSETS_FORGOTTEN: Final = (
    "it is read from its first record on. The states of sessions begin anew, except for what is in force; records of "
    "the old topic that were not read are lost"
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
        self.notes: list[str] = []
        """Human-readable findings."""
        self._logged: set[str] = set()
        for topic in (*logs.ids, changelog):
            self._counted[topic,].inc(0)  # so that the first one shows as an increase

    def begins_at(
        self, place: tuple[str, int], committed: int | None, beside: str, end: int, marks: Collection[bytes]
    ) -> int | None:
        """Return the offset at which to read a source's partition, given its commit and end; None: at its first record.

        `marks` are those of earlier owners of the partition that had other logs than the current ones.
        """
        topic, partition = place
        if committed is None:  # deleting a topic deletes its commits
            if any(topic in self._logs.others(mark) for mark in marks):
                self._log_once(topic, f"topic {topic} was recreated: {_OFFSETS_FORGOTTEN}")
            return None
        if self._logs.has_other_states(beside):
            self._log_once(self._changelog, f"topic {self._changelog} was recreated: {_STATES_LOST}")
        is_beyond = committed > end
        is_other = self._logs.is_other(topic, beside)
        if is_other or (is_other is None and is_beyond):
            self._log_once(topic, f"topic {topic} was recreated: {_OFFSETS_FORGOTTEN}")
            return None
        if is_beyond:
            log.error(
                "%s partition %d: LOST %d records: offset %d was committed, and it ends at %d; continues there",
                topic, partition, committed - end, committed, end,
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
