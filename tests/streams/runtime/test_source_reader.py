"""Records on their way from librdkafka to the event loop: whose they are, their order, and how many wait."""

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.source_reader import Fetched, SourceReader
from tests.waiting import wait_until

COMMANDS, EVENTS = "commands", "events"


class BadName(Message):
    """A header's name is not UTF-8."""

    def headers(self) -> NoReturn:
        raise SystemError("returned a result with an exception set")


class Librdkafka:
    """The consumer of one topic: what a test puts there is fetched. As the original, it keeps nothing over `assign`."""

    def __init__(self, on_error: Callable[[KafkaError], None]) -> None:
        self.on_error = on_error
        self.fetched: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.assigned: list[dict[int, int]] = []
        self.handed_out = 0
        """How many messages."""
        self.closed = False

    def assign(self, partitions: list[TopicPartition], /) -> None:
        while not self.fetched.empty():
            self.fetched.get()
        self.assigned.append({tp.partition: tp.offset for tp in partitions})

    def poll(self, timeout: float, /) -> Message | None:
        try:
            message = self.fetched.get(timeout=timeout) if timeout else self.fetched.get_nowait()
        except queue.Empty:
            return None
        self.handed_out += 1
        return message

    def consume(self, num_messages: int, /, timeout: float) -> list[Message]:
        assert timeout == 0
        found: list[Message] = []
        while len(found) < num_messages and not self.fetched.empty():
            found.append(self.fetched.get())
        self.handed_out += len(found)
        return found

    def close(self) -> None:
        self.closed = True


class Bench:
    """A reader of two topics; what it takes stands in `taken`. Nothing is taken while a test does not await."""

    def __init__(self, *, max_poll_records: int = 100, buffered_batches: int = 4) -> None:
        self.taken: list[Fetched] = []
        self.failures: list[BaseException] = []
        self.of: dict[str, Librdkafka] = {}
        self.on_taken: Callable[[], object] = lambda: None

        def open_one(on_error: Callable[[KafkaError], None]) -> Librdkafka:
            topic = threading.current_thread().name.removeprefix("reads ")
            self.of[topic] = Librdkafka(on_error)
            return self.of[topic]

        self.reader = SourceReader(
            (COMMANDS, EVENTS),
            self._take,
            open_with=open_one,
            on_failure=self.failures.append,
            max_poll_records=max_poll_records,
            buffered_batches=buffered_batches,
        )
        wait_until(lambda: len(self.of) == 2, "both consumers are made")

    def _take(self, fetched: Fetched) -> None:
        self.taken.append(fetched)
        self.on_taken()

    def begin(self, offsets: Mapping[Partition, int]) -> None:
        """Begins, and waits until each consumer has its partitions."""
        before = {name: len(consumer.assigned) for name, consumer in self.of.items()}
        self.reader.begin(offsets)
        for name, consumer in self.of.items():
            wait_until(lambda c=consumer, n=before[name]: len(c.assigned) > n, f"{name} is assigned")  # type: ignore[misc]  # of this turn

    def fetch(self, topic: str, *messages: Message) -> None:
        """Lets these come."""
        for message in messages:
            self.of[topic].fetched.put(message)

    async def takes(self, batches: int) -> None:
        async with asyncio.timeout(30):
            while len(self.taken) < batches:
                await asyncio.sleep(0.001)

    def offsets(self) -> list[tuple[str, int, list[int]]]:
        return [(*fetched.place, [record.offset for record in fetched.records]) for fetched in self.taken]


def record(topic: str, partition: int, offset: int, of: type[Message] = Message) -> Message:
    value, timestamp = b"%d" % offset, (1, 1000 + offset)
    return of(topic=topic, partition=partition, offset=offset, key=b"key", value=value, timestamp=timestamp)


def end(topic: str, partition: int, offset: int, code: int = KafkaError._PARTITION_EOF) -> Message:
    return Message(topic=topic, partition=partition, offset=offset, error=KafkaError(code))


Test = Callable[[Bench], Coroutine[Any, Any, None]]


def bench(**options: Any) -> Callable[[Test], Callable[[], None]]:
    """Runs a test in a loop, with a reader of its own."""

    def of(test: Test) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                here = Bench(**options)
                try:
                    await test(here)
                finally:
                    here.reader.close()
                assert all(consumer.closed for consumer in here.of.values())

            asyncio.run(main())

        return run

    return of


@bench(max_poll_records=1, buffered_batches=1)
async def test_a_batch_that_waits_for_room_when_partitions_go_is_dropped_and_the_next_assignment_is_read(
    here: Bench,
) -> None:
    here.begin({(EVENTS, 0): 0})
    consumer = here.of[EVENTS]
    here.fetch(EVENTS, *(record(EVENTS, 0, offset) for offset in range(3)))
    wait_until(lambda: consumer.handed_out == 2, "one is on its way, and one waits for room")
    here.begin({(EVENTS, 0): 10})
    assert consumer.assigned[-1] == {0: 10}
    here.fetch(EVENTS, record(EVENTS, 0, 10))
    await here.takes(1)
    assert here.offsets() == [(EVENTS, 0, [10])]


@bench(max_poll_records=1, buffered_batches=2)
async def test_a_partition_is_polled_no_further_than_there_is_room_and_all_of_it_comes_in_order(here: Bench) -> None:
    ahead: list[int] = []
    here.on_taken = lambda: ahead.append(here.of[EVENTS].handed_out - len(here.taken))
    here.begin({(EVENTS, 0): 0})
    here.fetch(EVENTS, *(record(EVENTS, 0, offset) for offset in range(50)))
    wait_until(lambda: here.of[EVENTS].handed_out == 3, "two are on their way, and one waits for room")
    await here.takes(50)
    assert [offsets for _, _, offsets in here.offsets()] == [[offset] for offset in range(50)]
    assert max(ahead) <= 3


@bench()
async def test_what_librdkafka_gets_over_by_itself_is_passed_over_and_headers_that_cannot_be_read_too(
    here: Bench,
) -> None:
    here.begin({(EVENTS, 0): 0})
    gone = end(EVENTS, 0, -1001, KafkaError.UNKNOWN_TOPIC_OR_PART)
    here.fetch(EVENTS, gone, record(EVENTS, 0, 0, BadName), record(EVENTS, 0, 1))
    here.of[EVENTS].on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    while sum(len(fetched.records) for fetched in here.taken) < 2:
        await asyncio.sleep(0.001)
    assert [(r.offset, tuple(r.headers)) for fetched in here.taken for r in fetched.records] == [(0, ()), (1, ())]
    assert here.failures == []


@bench()
async def test_a_topic_that_may_not_be_read_is_a_failure(here: Bench) -> None:
    here.begin({(EVENTS, 0): 0})
    here.fetch(EVENTS, end(EVENTS, 0, -1001, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    wait_until(lambda: here.failures, "the failure is told")
    (failure,) = here.failures
    assert isinstance(failure, KafkaException)
    assert failure.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
