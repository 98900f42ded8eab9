"""A simulated idempotent confluent-kafka Producer with delays before the append and before the acknowledgement."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message

from benchmarks.simulator.admin import metadata_of
from benchmarks.simulator.broker import Broker
from benchmarks.simulator.log import Headers, Record
from benchmarks.simulator.process import Process, ProcessEnded, Thread
from haltline.schemas.partitioner import murmur2
from haltline.streams.runtime.changelog import CLAIM_KEY

_hashed: Final = lru_cache(murmur2)
_LOST_ANSWER_SHARE: Final = 0.01
"""The share of batches whose response is lost: they are sent again, and the broker deduplicates them."""
ABANDONED_S: Final = 9.0
"""The maximum delay in seconds of records in flight from an ended process; by then others own the partitions."""
_LATE_SHARE: Final = 0.8
"""The share of such processes of which records are appended."""
_OVERTAKEN_SHARE: Final = 0.5
"""The share of refused first records of a producer in a partition behind which others are already on their way."""
_NEVER: Final = float("inf")
_HEALED_S: Final = 0.3
"""The maximum delay in seconds once the network has no faults."""

OnDelivery = Callable[[KafkaError | None, Message], object]


class _Sent:
    """A produced record and its delivery state."""

    __slots__ = ("landed", "new", "offset", "on_delivery", "place", "since")

    def __init__(self, place: tuple[str, int], new: Record, on_delivery: OnDelivery | None, since: float) -> None:
        self.place = place
        self.new = new
        self.on_delivery = on_delivery
        self.since = since
        self.landed = False
        self.offset = -1
        """Its offset in the log; -1: none."""

    def message(self, error: KafkaError | None) -> Message:
        topic, partition = self.place
        new = self.new
        return Message(
            topic=topic, partition=partition, offset=self.offset if self.offset >= 0 else OFFSET_INVALID,
            key=new.key, value=new.value, headers=list(new.headers), error=error, timestamp=(1, new.timestamp),
        )  # fmt: skip


class _Pipe:
    """The connection of one producer to one partition: in order, one request at a time."""

    __slots__ = (
        "abandoned", "flying", "handed_over", "lands_at", "life", "number", "producer", "refused", "sending",
        "sequence", "waiting",
    )  # fmt: skip

    def __init__(self, producer: "SimProducer") -> None:
        self.producer = producer
        self.number = producer.process.world.next_number()
        self.waiting: deque[_Sent] = deque()
        self.flying: list[tuple[int, list[_Sent]]] = []
        """Requests in flight, each with the broker's life (its number of restarts) at the time."""
        self.refused: list[_Sent] = []
        """Records that were refused for want of a leader, behind which the next are already on their way."""
        self.sequence = 0
        self.sending = False
        self.handed_over = 0
        """The number of waiting records that are in the kernel's buffers or on the wire."""
        self.abandoned = False
        """The process has ended or is unreachable: only records handed over are still sent."""
        self.lands_at = 0.0
        """The virtual time at which those arrive; infinite: never."""
        self.life = 0
        """The broker's life to which those were sent."""

    def add(self, sent: _Sent) -> None:
        self.waiting.append(sent)
        if not self.sending:
            self.begin(self.producer.broker.delay())

    def begin(self, after: float) -> None:
        self.sending = True
        self.producer.process.world.after(after, self.arrives)

    def arrives(self) -> None:
        """Deliver the next request to the broker."""
        self.sending = False
        producer, broker = self.producer, self.producer.broker
        world = producer.process.world
        if world.now < self.lands_at:
            return
        self.expire()
        if self.abandoned:
            self.arrive_late()
            return
        self.take_back()
        if not broker.up:
            self.requeue()
        if not self.waiting and (broker.up or not self.flying):
            return
        if not broker.up:
            self.sending = True
            broker.when_up(self.arrives)
            return
        place = self.waiting[0].place
        if not broker.has_leader(*place):
            self.requeue()
            if len(self.waiting) > 1 and not broker.log(*place).knows(self.number) and world.chance(_OVERTAKEN_SHARE):
                self.refused.append(self.waiting.popleft())
            self.begin(broker.delay())
            return
        count = min(len(self.waiting), 1 + int(world.random() * 40))
        answered = not world.chance(_LOST_ANSWER_SHARE)
        batch = [self.waiting[at] for at in range(count)]
        for sent in batch:
            self.land(sent)
        if answered:
            for _ in range(count):
                self.waiting.popleft()
            request = (broker.lives, batch)
            self.flying.append(request)
            world.after(broker.delay(), lambda: self.confirm(request))
        if self.waiting:
            self.begin(broker.delay() * (1 if answered else 5))

    def arrive_late(self) -> None:
        """Append the records handed over, if the broker still has the connection. The response is lost."""
        broker = self.producer.broker
        if broker.up and broker.lives == self.life:
            for sent in islice(self.waiting, self.handed_over):
                self.land(sent)
        self.handed_over = 0
        if not self.producer.process.alive:
            self.waiting.clear()

    def requeue(self) -> None:
        """Queue refused records again, in their order."""
        self.waiting.extendleft(reversed(self.refused))
        self.refused.clear()

    def take_back(self) -> None:
        """Queue records again whose response was lost with the broker's restart, in their order."""
        lives = self.producer.broker.lives
        unknown = [sent for life, batch in self.flying if life != lives for sent in batch if sent.landed]
        self.flying = [request for request in self.flying if request[0] == lives]
        if unknown:
            self.waiting = deque(sorted((*unknown, *self.waiting), key=lambda sent: sent.new.sequence))

    def land(self, sent: _Sent) -> None:
        producer = self.producer
        try:
            offset = producer.broker.append(*sent.place, sent.new)
        except KafkaException as refused:
            producer.report(sent, refused.args[0])
            sent.landed = False
        else:
            if offset is None:
                offset = producer.broker.log(*sent.place).place_of(self.number, sent.new.sequence)
            sent.offset = offset
            sent.landed = True

    def confirm(self, request: tuple[int, list[_Sent]]) -> None:
        """Report a request as delivered once all its records are below the high watermark."""
        producer, broker = self.producer, self.producer.broker
        life, batch = request
        if all(request is not other for other in self.flying):
            return
        if not broker.up or broker.lives != life:
            if not self.sending and not self.abandoned:
                self.sending = True
                if broker.up:
                    self.begin(broker.delay())
                else:
                    broker.when_up(self.arrives)
            return
        log = broker.log(*batch[0].place)
        if max(sent.offset for sent in batch) >= log.high:
            log.on_more(lambda: self.confirm(request))
            return
        self.flying = [other for other in self.flying if other is not request]
        # The client takes them for delivered because a later one was.
        refused, self.refused = self.refused, []
        for sent in refused:
            producer.report(sent, None)
        for sent in batch:
            if sent.landed:
                producer.report(sent, None)

    def expire(self) -> None:
        producer = self.producer
        if self.abandoned:
            return
        before = producer.process.world.now - producer.timeout_s
        while self.waiting and self.waiting[0].since < before:
            producer.report(self.waiting.popleft(), KafkaError(KafkaError._MSG_TIMED_OUT, "not delivered in time"))

    def abandon(self) -> None:
        """Stop sending: the process has ended or is unreachable. Records in the kernel's buffers may arrive later."""
        if self.abandoned:
            return
        world = self.producer.process.world
        self.abandoned = True
        self.requeue()
        self.handed_over = min(len(self.waiting), int(world.random() * 2 * (len(self.waiting) + 1)))
        self.lands_at, self.life = _NEVER, self.producer.broker.lives
        if self.handed_over and world.chance(_LATE_SHARE):
            healed_s = max(0.0, self.producer.broker.heals_at - world.now) + _HEALED_S * world.random()
            late_s = min(ABANDONED_S * world.random(), healed_s)
            self.lands_at = world.now + late_s
            world.after(late_s, self.arrives)

    def resume(self) -> None:
        self.abandoned = False
        self.lands_at = 0.0
        if not self.sending and (self.waiting or self.flying):
            self.begin(self.producer.broker.delay())


class SimProducer:
    """A confluent_kafka.Producer with the methods that the product uses."""

    def __init__(self, config: Mapping[str, Any], *, logger: Any = None, process: Process, broker: Broker) -> None:
        del logger
        self.process = process
        self.broker = broker
        self.timeout_s = float(config.get("delivery.timeout.ms", 300_000)) / 1000
        self._room = int(config.get("queue.buffering.max.messages", 100_000))
        self._max_bytes = int(config.get("message.max.bytes", 1_000_000))
        self._pipes: dict[tuple[str, int], _Pipe] = {}
        self._reports: deque[tuple[_Sent, KafkaError | None]] = deque()
        self._outstanding = 0
        self._waiting: list[Thread] = []
        process.on_end.append(self._abandon)
        process.on_unreachable.append(self._abandon)
        process.on_reachable.append(self._resume)

    def __len__(self) -> int:
        return self._outstanding

    def produce(  # noqa: PLR0917  # as in the real client
        self, topic: str, value: bytes | None = None, key: bytes | str | None = None, partition: int = -1,
        on_delivery: OnDelivery | None = None, headers: Headers | None = None, callback: OnDelivery | None = None,
        timestamp: int = 0,
    ) -> None:  # fmt: skip
        """Queue one record. Raises BufferError and KafkaException like the real client."""
        world = self.process.world
        if not self.process.alive:
            raise ProcessEnded
        if self._outstanding >= self._room:
            raise BufferError("Local: Queue full")
        if len(value or b"") > self._max_bytes:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
        key_bytes = key.encode() if isinstance(key, str) else key
        if partition < 0:
            count = len(self.broker.topics[topic].logs) if topic in self.broker.topics else 1
            partition = int(world.random() * count) if key_bytes is None else (_hashed(key_bytes) & 0x7FFFFFFF) % count
        pipe = self._pipes.get((topic, partition))
        if pipe is None:
            pipe = self._pipes[topic, partition] = _Pipe(self)
        new = Record(timestamp or world.time_ms(), key_bytes, value, headers or (), pipe.number, pipe.sequence)
        self._outstanding += 1
        pipe.add(_Sent((topic, partition), new, on_delivery or callback, world.now))
        pipe.sequence += 1
        world.point("claim" if key is not None and value is None and key[:1] == CLAIM_KEY else topic)

    def report(self, sent: _Sent, error: KafkaError | None) -> None:
        """Queue a delivery report."""
        if self.process.alive and sent.on_delivery is not _REPORTED:
            self._reports.append((sent, error))
            for thread in self._waiting:
                thread.wake()

    def poll(self, timeout: float = -1) -> int:
        """Call the delivery callbacks that are due; wait for the first up to `timeout` seconds. Return their number."""
        world = self.process.world
        if not self._reports:
            if timeout:
                self._wait(None if timeout < 0 else world.now + timeout)
            else:
                world.point("poll")
        return self._serve()

    def _wait(self, until: float | None) -> None:
        """Wait until there are reports, or until the virtual time."""
        world = self.process.world
        thread = world.current
        if thread is None:
            raise RuntimeError("expected a simulated thread to wait, got none")
        self._expire()
        while not self._reports and (until is None or world.now < until):
            self._waiting.append(thread)
            world.wait(until)
            self._waiting.remove(thread)
            self._expire()

    def _serve(self) -> int:
        self._expire()
        served = 0
        while self._reports:
            sent, error = self._reports.popleft()
            on_delivery, sent.on_delivery = sent.on_delivery, _REPORTED
            self._outstanding -= 1
            served += 1
            if on_delivery is not None:
                on_delivery(error, sent.message(error))
        return served

    def flush(self, timeout: float = -1) -> int:
        """Wait until every record is reported, up to `timeout` seconds. Return the number of records that are not."""
        world = self.process.world
        until = world.now + (timeout if timeout >= 0 else 3600.0)
        self._serve()
        while self._outstanding and world.now < until:
            self._wait(min(until, world.now + 1.0))
            self._serve()
        return self._outstanding

    def _expire(self) -> None:
        if not self.broker.up:
            for pipe in self._pipes.values():
                pipe.expire()

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the metadata of one topic or all."""
        self.broker.request(timeout if timeout >= 0 else 60.0)
        return metadata_of(self.broker, topic)

    def close(self) -> None:
        """Close the client; unacknowledged records are dropped."""
        self._abandon()

    def _abandon(self) -> None:
        for pipe in self._pipes.values():
            pipe.abandon()

    def _resume(self) -> None:
        for pipe in self._pipes.values():
            pipe.resume()


def _REPORTED(_error: KafkaError | None, _message: Message) -> None:  # noqa: N802  # marks a record that was reported
    raise RuntimeError("expected one report for each record, got two")
