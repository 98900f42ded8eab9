"""Records from librdkafka to the event loop; the simulator tests their order over rebalances."""

import asyncio
import queue
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from haltline.streams.runtime.source_reader import Fetched, SourceReader
from tests.waiting import wait_until

EVENTS = "events"


class BadName(Message):
    """A header's name is not UTF-8."""

    def headers(self) -> NoReturn:
        raise SystemError("returned a result with an exception set")


class Librdkafka:
    """The consumer: what a test puts into `fetched` is fetched."""

    def __init__(self) -> None:
        self.on_error: Callable[[KafkaError], None] = lambda _: None
        self.fetched: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.closed = False

    def open(self, on_error: Callable[[KafkaError], None]) -> "Librdkafka":
        self.on_error = on_error
        return self

    def list_topics(self, _topic: str, /, *, timeout: float) -> NoReturn:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, f"no answer within {timeout} s"))

    def assign(self, _partitions: list[TopicPartition], /) -> None: ...

    def poll(self, timeout: float, /) -> Message | None:
        with suppress(queue.Empty):
            return self.fetched.get(timeout=timeout)
        return None

    def consume(self, num_messages: int, /, timeout: float) -> list[Message]:
        messages = (self.poll(timeout) for _ in range(min(num_messages, self.fetched.qsize())))
        return [message for message in messages if message is not None]

    def close(self) -> None:
        self.closed = True


class Bench:
    """A reader of partition 0 of a topic; what it takes stands in `taken`."""

    def __init__(self) -> None:
        self.taken: list[Fetched] = []
        self.failures: list[BaseException] = []
        self.consumer = Librdkafka()
        self.reader = SourceReader(
            (EVENTS,),
            self._take,
            open_with=self.consumer.open,
            on_failure=self.failures.append,
            max_poll_records=100,
            buffered_batches=4,
        )
        self.reader.begin({(EVENTS, 0): 0})

    def _take(self, fetched: Fetched) -> None:
        self.taken.append(fetched)

    async def takes(self, records: int) -> None:
        async with asyncio.timeout(30):
            while sum(len(fetched.records) for fetched in self.taken) < records:
                await asyncio.sleep(0.001)


def record(offset: int, of: type[Message] = Message) -> Message:
    return of(topic=EVENTS, partition=0, offset=offset, key=b"k", value=b"v", timestamp=(1, 1000 + offset))


def error(code: int) -> Message:
    return Message(topic=EVENTS, partition=0, offset=-1001, error=KafkaError(code))


def read(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    """Runs a test in a loop, with a reader of its own."""

    async def main() -> None:
        here = Bench()
        try:
            await test(here)
        finally:
            here.reader.close()
        assert here.consumer.closed

    asyncio.run(main())


def test_what_librdkafka_gets_over_by_itself_is_passed_over_and_headers_that_cannot_be_read_too() -> None:
    async def test(here: Bench) -> None:
        for message in (error(KafkaError.UNKNOWN_TOPIC_OR_PART), record(0, BadName), record(1)):
            here.consumer.fetched.put(message)
        here.consumer.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        await here.takes(2)
        assert [(r.offset, tuple(r.headers)) for fetched in here.taken for r in fetched.records] == [(0, ()), (1, ())]
        assert here.failures == []

    read(test)


def test_a_topic_that_may_not_be_read_is_a_failure() -> None:
    async def test(here: Bench) -> None:
        here.consumer.fetched.put(error(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        wait_until(lambda: here.failures, "the failure is told")
        (failure,) = here.failures
        assert isinstance(failure, KafkaException)
        assert failure.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    read(test)
