"""The broker: its topics, its availability, and the latency of the network."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from benchmarks.simulator.log import Log, Record, Topic
from benchmarks.simulator.world import World

if TYPE_CHECKING:
    from benchmarks.simulator.group import Group

ADDRESS: Final = "simulated:9092"
CLUSTER_ID: Final = "simulated-cluster"
_REPLICATED_LATER_SHARE: Final = 0.15
_MIN_LAG_MS: Final = 4_000
"""Longer than an owner takes to detect a late record and rewrite its state. It stands for ten minutes in production."""
_TOMBSTONES_MS: Final = 20_000


class Broker:
    """One broker with every partition.

    `embedded`: like haltline's own broker, which has no controller and no topic ids, and deletes the oldest records of
    a full partition instead of compacting it.
    """

    def __init__(self, world: World, *, embedded: bool = False) -> None:
        self.world = world
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.described: dict[str | None, object] = {}
        """Cached metadata by topic, None: of all; cleared when a topic is created."""
        self.embedded = embedded
        self.up = True
        self.lives = 0
        """The number of restarts."""
        self.slow = 1.0
        """The factor on the usual latency of the network."""
        self.heals_at = float("inf")
        """The virtual time from which the network has no faults."""
        self._waiting: list[Callable[[], object]] = []
        self._lagging: set[tuple[str, int]] = set()
        self._led_from: dict[tuple[str, int], float] = {}
        """The virtual time from which a partition has a leader, if it has to elect one."""
        self.on_down: list[Callable[[], object]] = []

    # Topics.

    def create(self, name: str, partitions: int, *, compacted: bool = False) -> Topic:
        """Create a topic; it replaces one of the same name."""
        topic = Topic(name, f"topic-{self.world.next_number():08d}", partitions, compacted=compacted)
        self.topics[name] = topic
        self.described.clear()
        return topic

    def recreate(self, name: str) -> Topic:
        """Delete and recreate a topic; the groups' offsets of it are deleted."""
        before = self.topics[name]
        self.world.trace("recreates", name)
        for group in self.groups.values():
            group.forget(name)
        topic = self.create(name, len(before.logs), compacted=before.compacted)
        for log in before.logs:
            log.tell()
        return topic

    def log(self, topic: str, partition: int) -> Log:
        """Return one partition. Raises KafkaException when it does not exist."""
        found = self.topics.get(topic)
        if found is None:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"no topic {topic}"))
        if not 0 <= partition < len(found.logs):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, f"no partition {partition} of {topic}"))
        return found.logs[partition]

    def partitions(self) -> Iterator[tuple[str, int, Log]]:
        """Yield all partitions."""
        for name, topic in self.topics.items():
            for number, log in enumerate(topic.logs):
                yield name, number, log

    def append(self, topic: str, partition: int, new: Record) -> int | None:
        """Append a record. Return its offset; None when an earlier attempt had appended it. Raises KafkaException."""
        log = self.log(topic, partition)
        if new.key is None and self.topics[topic].compacted:
            raise KafkaException(KafkaError(KafkaError.INVALID_RECORD, "a compacted topic takes no record without key"))
        offset = log.append(new)
        world = self.world
        if offset is not None:
            log.landed_ms[offset] = world.time_ms()
        if world.tracing:
            world.trace("lands", f"{topic}[{partition}]", offset, new.key)
        if world.random() < _REPLICATED_LATER_SHARE:
            world.after(self.delay(), lambda: self._replicated(topic, partition, log))
        else:
            self._replicated(topic, partition, log)
        return offset

    def _replicated(self, topic: str, partition: int, log: Log) -> None:
        if self.up and (topic, partition) not in self._lagging:
            log.raise_high()

    def compact(self, topic: str, *, whole: bool = False) -> None:
        """Compact a topic. `whole`: as when nothing was written for days.

        The embedded broker deletes old records only as far as each key has a later one; more would lose states.
        """
        now_ms = self.world.time_ms()
        if whole:
            for log in self.topics[topic].logs:
                log.roll()
        before_ms, tombstones_ms = (
            (now_ms + 1, now_ms + 1) if whole else (now_ms - _MIN_LAG_MS, now_ms - _TOMBSTONES_MS)
        )
        logs = self.topics[topic].logs
        if self.embedded:
            gone = [log.drop_replaced(before_ms) for log in logs]
        else:
            gone = [log.compact(before_ms, tombstones_ms) for log in logs]
        self.world.trace("compacts", topic, gone)

    # Availability.

    def delay(self) -> float:
        """Return the latency of a message in seconds; most take milliseconds."""
        random = self.world.random
        drawn = random()
        if drawn < 0.9:
            return (0.0005 + 0.006 * random()) * self.slow
        if drawn < 0.995 or self.world.calm:
            return 0.05 * random() * self.slow
        return 2.0 * random()

    def at_usual_speed(self) -> None:
        """Restore the usual latency."""
        self.slow = 1.0

    def go_down(self, *, crash: bool) -> None:
        """Make the broker unavailable. A crash may lose records that were not replicated yet."""
        if not self.up:
            return
        self.up = False
        self.world.trace("broker goes", "crash" if crash else "")
        for name, number, log in self.partitions():
            if crash and log.replicated < log.end and self.world.chance(0.5):
                self.world.trace("loses the tail of", f"{name}[{number}]", log.replicated, log.end)
                log.cut(log.replicated)
        for call in self.on_down:
            call()

    def come_up(self, *, lagging: bool) -> None:
        """Make the broker available; coordinators load first.

        `lagging`: for a while, some high watermarks lag, and some partitions have no leader.
        """
        if self.up:
            return
        world = self.world
        self.up = True
        self.lives += 1
        world.trace("broker returns")
        for name, number, log in self.partitions():
            if lagging and log.end > log.start and world.chance(0.4):
                log.high = max(log.start, log.end - 1 - int(world.random() * 12))
                self.lag(name, number, log, world.between(0.2, 3.0))
            else:
                log.raise_high()
            log.tell()  # a waiting client learns that its request was lost with the restart
            if lagging and world.chance(0.3):
                self._led_from[name, number] = world.now + world.between(0.05, 2.0)
        for group in self.groups.values():
            group.load(world.between(0.05, 1.0))
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            world.after(world.between(0.0, 0.3), call)

    def lag(self, topic: str, partition: int, log: Log, seconds: float) -> None:
        """Keep a high watermark behind the end for these seconds."""
        self._lagging.add((topic, partition))

        def caught_up() -> None:
            self._lagging.discard((topic, partition))
            log.raise_high()

        self.world.trace("lags", f"{topic}[{partition}]", log.high, log.end)
        self.world.after(seconds, caught_up)

    def has_leader(self, topic: str, partition: int) -> bool:
        """Return whether a partition has a leader; until then it refuses records."""
        return self.world.now >= self._led_from.get((topic, partition), 0.0)

    def lag_somewhere(self, seconds: float, topic: str | None = None) -> None:
        """Let high watermarks fall behind, as after an election: those of a topic, or some of all topics."""
        for name, number, log in self.partitions():
            if log.end > log.start and (name == topic if topic else self.world.chance(0.3)):
                log.high = max(log.start, log.end - 1 - int(self.world.random() * 5))
                self.lag(name, number, log, seconds)

    def when_up(self, call: Callable[[], object]) -> None:
        """Call this shortly after the broker is available again."""
        self._waiting.append(call)

    # Requests from a thread.

    def request(self, timeout: float) -> None:
        """Send a request and wait for its response. Raises KafkaException at the timeout, in seconds."""
        world = self.world
        until = world.now + max(timeout, 0.0)
        world.point("request")
        there = self.delay()
        if self.up and there < timeout:
            lives = self.lives
            world.sleep(there)
            if self.up and lives == self.lives:
                return
        while world.now < until:
            world.sleep(min(0.1, until - world.now))
            if self.up:
                world.sleep(min(self.delay(), max(until - world.now, 0.0)))
                if self.up and world.now < until:
                    return
        code = KafkaError._TIMED_OUT if world.chance(0.5) else KafkaError._TRANSPORT
        raise KafkaException(KafkaError(code, "the broker did not answer in time"))
