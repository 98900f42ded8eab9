"""A simulated confluent-kafka Consumer of partitions that it assigns itself or gets from its group."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from benchmarks.simulator.admin import metadata_of
from benchmarks.simulator.broker import Broker
from benchmarks.simulator.group import NO_ANSWER, Assigned, group_of
from benchmarks.simulator.group_consumer import GroupMember
from benchmarks.simulator.log import Log
from benchmarks.simulator.process import Process, Thread

Place = tuple[str, int]

_NEVER: Final = float("inf")
_AT_MOST: Final = 60
"""The maximum number of records in one fetch of a partition."""


class _Fetch:
    """The fetch state of one assigned partition."""

    __slots__ = ("eof", "listens", "log", "position", "ready_at", "seen_end", "stopped")

    def __init__(self, position: int, ready_at: float) -> None:
        self.position = position
        self.ready_at = ready_at
        """The virtual time at which the response of the current fetch arrives."""
        self.eof = -1
        """The end offset that was last reported; -1: none."""
        self.log: Log | None = None
        self.listens: Log | None = None
        """The log that wakes it when there are more records."""
        self.seen_end = OFFSET_INVALID
        self.stopped = False


class SimConsumer:
    """A confluent_kafka.Consumer with the methods that the product uses."""

    def __init__(self, config: Mapping[str, Any], *, logger: Any = None, process: Process, broker: Broker) -> None:
        del logger
        self.process = process
        self.broker = broker
        self._config = config
        self._eof = bool(config.get("enable.partition.eof", False))
        self._reset = str(config.get("auto.offset.reset", "latest"))
        self._error_cb: Callable[[KafkaError], object] | None = config.get("error_cb")
        self._on_commit: Callable[[KafkaError | None, list[TopicPartition]], object] | None = config.get("on_commit")
        self._fetches: dict[Place, _Fetch] = {}
        self._queue: deque[Message] = deque()
        self._events: deque[Callable[[], object]] = deque()
        """Callbacks of the application that are due; `poll` calls them."""
        self._due_at = 0.0
        """The virtual time before which no fetch response arrives."""
        self._waiting: Thread | None = None
        self._life = broker.lives
        self._reported_down = False
        self._member: GroupMember | None = None
        self._assigned_now = False
        self.closed = False

    # Assignment.

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions only, each from its offset. Records fetched before are dropped."""
        self._assigned_now = True
        world = self.process.world
        world.point("assign")
        self._queue.clear()
        self._due_at = 0.0
        self._fetches = {
            (tp.topic, tp.partition): _Fetch(tp.offset, world.now + self.broker.delay()) for tp in partitions
        }

    def unassign(self) -> None:
        """Drop the assignment."""
        self.assign([])

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return [TopicPartition(*place) for place in self._fetches]

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the offsets after the last records returned to the application."""
        waiting: dict[Place, int] = {}
        for message in self._queue:
            waiting.setdefault((str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0))
        found = []
        for tp in partitions:
            fetch = self._fetches.get((tp.topic, tp.partition))
            at = OFFSET_INVALID if fetch is None or fetch.position < 0 else fetch.position
            found.append(TopicPartition(tp.topic, tp.partition, waiting.get((tp.topic, tp.partition), at)))
        return found

    # Records.

    def poll(self, timeout: float = -1) -> Message | None:
        """Return the next message; None at the timeout, in seconds."""
        world = self.process.world
        world.point("poll")
        until = world.now + (timeout if timeout >= 0 else 3600.0)
        while True:
            self._serve()
            if self._queue or self._fetch():
                return self._queue.popleft()
            if world.now >= until:
                return None
            self._wait(until)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return up to `num_messages` messages, fewer at the timeout, in seconds."""
        world = self.process.world
        world.point("poll")
        until = world.now + (timeout if timeout >= 0 else 3600.0)
        found: list[Message] = []
        while True:
            self._serve()
            while self._queue and len(found) < num_messages:
                found.append(self._queue.popleft())
            if len(found) >= num_messages or world.now >= until:
                return found
            if not self._fetch():
                self._wait(until)

    def _wait(self, until: float) -> None:
        world = self.process.world
        self._waiting = world.current
        world.wait(min(self._due_at, until) if self._due_at > world.now else until)
        self._waiting = None

    def wake(self) -> None:
        """Wake the thread that polls."""
        if self._waiting is not None:
            self._waiting.wake()

    def _serve(self) -> None:
        while self._events:
            self._events.popleft()()

    def tell(self, event: Callable[[], object]) -> None:
        """Have `poll` call this."""
        self._events.append(event)
        self.wake()

    def _fetch(self) -> bool:
        """Take in the fetch responses that have arrived. Return whether the queue has messages."""
        broker, world = self.broker, self.process.world
        if not broker.up:
            if not self._reported_down:
                self._reported_down = True
                self._complain(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
            return bool(self._queue)
        if self._reported_down:
            self._reported_down = False
            for fetch in self._fetches.values():
                fetch.ready_at = world.now + broker.delay() + 0.1 * world.random()
            self._due_at = 0.0
        now = world.now
        if now < self._due_at:
            return bool(self._queue)
        due = [at for at in self._fetches.items() if at[1].ready_at <= now and not at[1].stopped]
        first = int(world.random() * len(due)) if len(due) > 1 else 0
        for place, fetch in due[first:] + due[:first]:
            self._fetch_one(place, fetch)
            if len(self._queue) > _AT_MOST:
                break
        self._due_at = min((fetch.ready_at for fetch in self._fetches.values() if not fetch.stopped), default=_NEVER)
        return bool(self._queue)

    def _fetch_one(self, place: Place, fetch: _Fetch) -> None:
        world = self.process.world
        try:
            log = fetch.log = self.broker.log(*place)
        except KafkaException as unknown:
            self._message(place, 0, unknown.args[0])
            fetch.ready_at = world.now + 1.0
            return
        position = self._resolved(place, fetch, log)
        if position > log.end or position < log.start:
            if self._reset == "error":
                self._message(place, position, KafkaError(KafkaError._AUTO_OFFSET_RESET, "offset out of range"))
                fetch.stopped = True
                return
            position = log.high if self._reset in ("latest", "end", "largest") else log.start
            world.trace("resets", self.process.name, f"{place[0]}[{place[1]}]", fetch.position, position)
        fetch.position, fetch.seen_end = position, log.high
        if position < log.high:
            records = log.read(position, 1 + int(world.random() * _AT_MOST))
            for record in records:
                self._queue.append(
                    Message(
                        topic=place[0], partition=place[1], offset=record.offset, key=record.key, value=record.value,
                        headers=list(record.headers) or None, timestamp=(1, record.timestamp),
                    )
                )  # fmt: skip
            # If compaction removed all records, continue at the high watermark.
            fetch.position = records[-1].offset + 1 if records else log.high
            fetch.ready_at = world.now + self.broker.delay()
            return
        if self._eof and position == log.high and fetch.eof != position:
            fetch.eof = position
            self._message(place, position, KafkaError(KafkaError._PARTITION_EOF, "end of partition"))
        self._listen(fetch, log)

    def _resolved(self, place: Place, fetch: _Fetch, log: Log) -> int:
        position = fetch.position
        if position in (OFFSET_STORED, OFFSET_INVALID):
            committed = group_of(self.broker, str(self._config.get("group.id", ""))).offsets.get(place)
            if committed is not None:
                return committed[0]
            position = OFFSET_END if self._reset in ("latest", "end", "largest") else OFFSET_BEGINNING
        if position == OFFSET_BEGINNING:
            return log.start
        return log.high if position == OFFSET_END else position

    def _listen(self, fetch: _Fetch, log: Log) -> None:
        """Fetch again when there are more records, or when the topic is deleted."""
        world = self.process.world
        fetch.ready_at = _NEVER
        if fetch.listens is log:
            return
        fetch.listens = log

        def more() -> None:
            fetch.listens = None
            fetch.ready_at = world.now + self.broker.delay()
            self._due_at = min(self._due_at, fetch.ready_at)
            self.wake()

        log.on_more(more)

    def _message(self, place: Place, offset: int, error: KafkaError) -> None:
        self._queue.append(Message(topic=place[0], partition=place[1], offset=offset, error=error))

    def _complain(self, code: int, text: str) -> None:
        call = self._error_cb
        if call is not None:
            call(KafkaError(code, text))

    # Queries.

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the metadata of one topic or all."""
        self.broker.request(timeout if timeout >= 0 else 60.0)
        return metadata_of(self.broker, topic)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int] | None:
        """Return the first offset and the high watermark; those of the last fetch when `cached`."""
        if cached:
            fetch = self._fetches.get((partition.topic, partition.partition))
            if fetch is None or fetch.log is None:
                return OFFSET_INVALID, OFFSET_INVALID
            return fetch.log.start, fetch.seen_end
        self.broker.request(timeout if timeout >= 0 else 60.0)
        if self._life != self.broker.lives:
            self._life = self.broker.lives
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION, "the leader is another"))
        log = self.broker.log(partition.topic, partition.partition)
        return log.start, log.high

    def offsets_for_times(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Return the offset of the first record not older than the timestamp, by partition; -1 when all are older."""
        self.broker.request(timeout if timeout >= 0 else 60.0)
        found = []
        for tp in partitions:
            log = self.broker.log(tp.topic, tp.partition)
            at = next((r.offset for r in log.records if r.timestamp >= tp.offset and r.offset < log.high), -1)
            found.append(TopicPartition(tp.topic, tp.partition, at))
        return found

    # The group.

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[..., object] | None = None,
        on_revoke: Callable[..., object] | None = None,
        on_lost: Callable[..., object] | None = None,
    ) -> None:
        """Join the group; `poll` calls the callbacks."""

        def assigned(places: Assigned) -> None:
            partitions = [TopicPartition(*place) for place in sorted(places)]
            self._assigned_now = False
            if on_assign is not None:
                on_assign(self, partitions)
            if not self._assigned_now:
                self.assign([TopicPartition(tp.topic, tp.partition, OFFSET_STORED) for tp in partitions])

        def revoked(places: Assigned, lost: bool, join_again: Callable[[], object]) -> None:
            call = (on_lost or on_revoke) if lost else on_revoke
            if call is not None:
                call(self, [TopicPartition(*place) for place in sorted(places)])
            self._queue.clear()
            self._fetches = {}
            join_again()

        self._member = GroupMember(
            process=self.process,
            broker=self.broker,
            group=group_of(self.broker, str(self._config["group.id"])),
            topics=tuple(topics),
            instance_id=self._config.get("group.instance.id"),
            session_s=float(self._config.get("session.timeout.ms", 45_000)) / 1000,
            tell=self.tell,
            on_assigned=assigned,
            on_revoked=revoked,
            on_fenced=lambda: self.process.end("fenced: another process has its instance id"),
        )
        self._member.join()

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit these offsets. A synchronous commit raises KafkaException when the group refuses it."""
        del message
        world = self.process.world
        world.point("commit")
        partitions = list(offsets or ())
        taken = {(tp.topic, tp.partition): (tp.offset, str(tp.metadata or "")) for tp in partitions}
        group = group_of(self.broker, str(self._config["group.id"]))
        member = self._member
        answer: list[int | None] = []

        def answered(code: int | None) -> None:
            answer.append(code)
            if asynchronous and self._on_commit is not None:
                call = self._on_commit
                error = None if code == 0 else KafkaError(KafkaError._TIMED_OUT if code is None else code, "commit")
                self.tell(lambda: call(error, partitions))
            self.wake()

        who = ("", None, -1) if member is None else (member.id, member.instance_id, member.generation)
        group.ask(self.process, lambda: group.commit(*who, taken), answered)
        if asynchronous:
            return None
        until = world.now + 60.0
        while not answer and world.now < until:
            self._waiting = world.current
            world.wait(until)
        code = answer[0] if answer else NO_ANSWER
        if code != 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT if code is None else code, "commit refused"))
        return partitions

    def committed(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Return the committed offsets."""
        self.broker.request(timeout if timeout >= 0 else 60.0)
        offsets = group_of(self.broker, str(self._config["group.id"])).offsets
        return [
            TopicPartition(tp.topic, tp.partition, offsets.get((tp.topic, tp.partition), (OFFSET_INVALID, ""))[0])
            for tp in partitions
        ]

    def close(self) -> None:
        """Leave the group and close the client."""
        self.process.world.point("close")
        self.closed = True
        self._fetches = {}
        self._queue.clear()
        if self._member is not None:
            self._member.leave()
