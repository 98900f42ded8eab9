"""Counting workers as processes, and their records on the broker."""

import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.cluster import answered
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.runtime.changelog import CLAIM_KEY
from tests.waiting import wait_until


def start_counting(
    children: Children, name: str, bootstrap: str, *, topics: Sequence[str], output: str, group: str, **options: object
) -> Child:
    """`python -m tests.streams.counting_worker` with a broker's topics; options as keywords."""
    settings = {"bootstrap": bootstrap, "topics": ",".join(topics), "output": output, "group": group, **options}
    arguments = [[f"--{name.replace('_', '-')}", str(value)] for name, value in settings.items()]
    return children.start_module(name, "tests.streams.counting_worker", [*chain(*arguments)], must_run=False)


def stop(worker: Child) -> None:
    """SIGTERM, and it must end cleanly."""
    code = worker.stop(within_s=60)
    assert code == 0, worker.last_lines(100)


def get(port: int | None, path: str) -> tuple[int, str]:
    """Status and body of a worker's own server; status 0 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def shows(port: int, line: str) -> bool:
    """Return whether a worker's metrics have this line now."""
    return line in get(port, "/metrics")[1].splitlines()


def produce(bootstrap: str, topic: str, keys: Iterable[str]) -> Counter[str]:
    """Send one record for each key; returns how many for each."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    sent: Counter[str] = Counter()
    refused: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(str(error))

    for key in keys:
        producer.produce(topic, key=key, value=b'{"n":1}', on_delivery=delivered)
        producer.poll(0)
        sent[key] += 1
    assert producer.flush(60) == 0
    assert refused == []
    return sent


class Log:
    """Topics of a broker, read outside of any group."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = self._join("none")

    def _join(self, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "enable.auto.commit": False})

    def close(self) -> None:
        self._consumer.close()

    def ends(self, topic: str) -> dict[int, int]:
        """By partition: the offset that the next record will get."""
        partitions = answered(lambda: self._consumer.list_topics(topic, timeout=10)).topics[topic].partitions
        ask = self._consumer.get_watermark_offsets
        return {n: answered(partial(ask, TopicPartition(topic, n), timeout=10))[1] for n in partitions}

    def records(self, topic: str) -> list[Message]:
        """All there are now; those of a partition in their order."""
        with LogReader(self._bootstrap, [topic]) as reader:
            return list(reader.to_end())

    def counts(self, changelog: str) -> Counter[str]:
        """By key: the count in its last state in the changelog."""
        states: dict[str, Any] = {}
        for message in self.records(changelog):
            key, value = message.key(), message.value()
            assert key is not None
            if not key.startswith(CLAIM_KEY):
                states[key.decode()] = None if value is None else orjson.loads(value)
        return Counter({key: state["count"] for key, state in states.items() if state is not None})

    def told(self, output: str) -> dict[str, int]:
        """The workers' output, `key:count`, and the number of each."""
        return Counter((message.value() or b"").decode() for message in self.records(output))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """By partition: the committed offset; 0 when there is none."""
        consumer = self._join(group)
        try:
            partitions = [TopicPartition(topic, number) for number in self.ends(topic)]
            tps = answered(lambda: consumer.committed(partitions, timeout=10))
        finally:
            consumer.close()
        return {tp.partition: max(tp.offset, 0) for tp in tps}

    def wait_until_committed(self, group: str, topics: Iterable[str], *, deadline_s: float = 60.0) -> None:
        """Wait until the group has committed all records of the topics."""
        for topic in topics:
            all_is = partial(self._is_committed, group, topic)
            wait_until(all_is, f"group {group} has committed all of {topic}", deadline_s=deadline_s)

    def _is_committed(self, group: str, topic: str) -> bool:
        return self.committed(group, topic) == self.ends(topic)


def expected_tellings(sent: Mapping[str, int], *, every: int = 10) -> set[str]:
    """Every line that must be told for so many records of each key."""
    return {f"{key}:{count}" for key, total in sent.items() for count in range(every, total + 1, every)}
