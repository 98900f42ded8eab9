"""Watches the first and last offsets of partitions in a thread of its own, so that a stuck fetcher is noticed.

The consumer's own high watermark comes with each fetch: when fetching stops, it and the lag no longer change. So a
thread requests the offsets from the brokers.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from haltline.interventions.outage import Outage
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import Unreachable, open_consumer
from haltline.streams.kafka.partition_offsets import PartitionOffsets
from haltline.streams.runtime.health import Partition, Progress, Sample, Verdict, follow, judge, waits_since
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.topic_watch import TopicWatch
from haltline.streams.system import REAL, System

log = logging.getLogger(__name__)

_REQUEST_WITHIN_S: Final = 10.0
_READ_WITHIN_S: Final = 5.0
_POLL_S: Final = 0.1


class Place(Protocol):
    """The progress of a topic reader; called from another thread."""

    def positions(self) -> Mapping[Partition, tuple[int, int | None]]:
        """By assigned source partition: the first offset not processed, and the time of the last processed record."""

    def committed(self, partition: Partition) -> int | None:
        """Return the last committed offset; None if unknown."""

    def recovered(self) -> bool:
        """Return whether the states of the assigned partitions are recovered."""


@dataclass(eq=False)
class LagWatch:
    """A thread that keeps the lag metrics and the verdict, until `close`.

    With `topics` it watches these too, and reports their problems in the verdict. `owned` returns further partitions,
    whose ends it passes to `on_ends`.
    `on_failure` is called from the thread with an unexpected exception, which ends the thread: the last verdict would
    stay, so the process must end.
    """

    client: Mapping[str, str | int | float | bool]
    place: Place
    metrics: InitVar[Metrics]
    _: KW_ONLY
    topics: TopicWatch | None = None
    owned: Callable[[], Collection[Partition]] = tuple
    on_ends: Callable[[Mapping[Partition, int]], object] = dict
    interval_s: float
    stuck_after_s: float
    on_failure: Callable[[BaseException], object]
    system: System = REAL

    def __post_init__(self, metrics: Metrics) -> None:
        self._outage = Outage(
            log, "lag: the broker, which has the ends of the partitions,", now_s=self.system.monotonic
        )
        self._offsets = PartitionOffsets(self.client, _REQUEST_WITHIN_S, system=self.system)
        self._lag = metrics.gauge("consumer_lag_records")
        self._lag_seconds = metrics.gauge("consumer_lag_seconds")
        self._committed = metrics.gauge("consumer_committed_offset")
        self._end = metrics.gauge("consumer_high_watermark")
        self._begin = metrics.gauge("consumer_low_watermark")
        self._progress: Mapping[Partition, Progress] = {}
        self._closing = False
        self._woken = self.system.event()
        self._thread = self.system.thread(target=self._run, name="lag", daemon=True)
        self._thread.start()

    def verdict(self) -> Verdict:
        """The present verdict on the process's health."""
        troubles = () if self.topics is None else self.topics.troubles
        recovered = self.place.recovered()
        return judge(
            self._progress, self._now_s(), stuck_after_s=self.stuck_after_s, recovered=recovered, troubles=troubles
        )

    def look_soon(self) -> None:
        """Look now and not after the interval: partitions were assigned."""
        self._woken.set()

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        self._woken.set()
        self._thread.join()

    def _now_s(self) -> float:
        return self.system.time_ns() / 1e9

    def _run(self) -> None:
        try:
            while True:
                self._woken.wait(self.interval_s)
                self._woken.clear()
                if self._closing:
                    return
                try:
                    if self.topics is not None:
                        self.topics.look()
                    self._look()
                    self._outage.back()
                except KafkaException as failed:  # the last known end offsets stay in use
                    self._outage.away(failed)
        except Exception as failure:
            self.on_failure(failure)

    def _look(self) -> None:
        positions = self.place.positions()
        owned = self.owned()
        ends = self._offsets.ends([*positions, *owned])
        self.on_ends({partition: ends[partition] for partition in owned})  # at once: the next request may fail
        begins = self._offsets.begins([*positions])
        now_s = self._now_s()
        before, self._progress = (
            self._progress,
            {
                partition: follow(
                    self._progress.get(partition),
                    Sample(next_offset=next_offset, end_offset=ends[partition], last_record_ms=last_record_ms),
                    now_s,
                )
                for partition, (next_offset, last_record_ms) in positions.items()
            },
        )
        self._publish(before, begins, now_s)
        if behind := {at: seen.next_offset for at, seen in self._progress.items() if at not in before and seen.lag}:
            self._date(behind)

    def _date(self, behind: Mapping[Partition, int]) -> None:
        """Set since when the records of newly assigned partitions wait; now, if the broker does not answer."""
        try:
            dated = oldest_unprocessed(self.client, behind, system=self.system)
        except (KafkaException, Unreachable) as failed:
            log.warning("lag: expected the times of the first waiting records, got %s", failed)
            return
        known = {at: waits_since(self._progress[at], record_ms) for at, record_ms in dated.items()}
        self._progress = {**self._progress, **known}

    def _publish(self, before: Mapping[Partition, Progress], begins: Mapping[Partition, int], now_s: float) -> None:
        for partition, seen in self._progress.items():
            labels = (partition[0], str(partition[1]))
            self._lag.labels(*labels).set(seen.lag)
            self._lag_seconds.labels(*labels).set(seen.lag_seconds(now_s))
            self._end.labels(*labels).set(seen.end_offset)
            self._begin.labels(*labels).set(begins[partition])
            committed = self.place.committed(partition)
            if committed is not None:
                self._committed.labels(*labels).set(committed)
        for topic, number in before.keys() - self._progress.keys():  # another worker reports them now
            for gauge in (self._lag, self._lag_seconds, self._end, self._committed):
                gauge.remove(topic, str(number))


def oldest_unprocessed(
    client: Mapping[str, ClientSetting], places: Mapping[Partition, int], *, system: System = REAL
) -> dict[Partition, int]:
    """Return the time of the record at or after an offset, by partition, in epoch milliseconds.

    For a process that starts behind and has not read them yet. Partitions without an answer within five seconds are
    left out. Raises Unreachable when no broker answers, and KafkaException when it refuses.
    """
    if not places:
        return {}
    with closing(
        open_consumer(str(client["bootstrap.servers"]), client={**client, "queued.min.messages": 1}, system=system)
    ) as consumer:
        consumer.assign([TopicPartition(*place, offset) for place, offset in places.items()])
        return _read(consumer, set(places), system)


def _read(consumer: Consumer, partitions: set[Partition], system: System) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    deadline = system.monotonic() + _READ_WITHIN_S
    while partitions and system.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        place = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is not None and error.fatal():
            raise KafkaException(error)
        kind, at_ms = message.timestamp()
        if error is None and kind and place in partitions:
            found[place] = at_ms
        partitions.discard(place)
    return found
