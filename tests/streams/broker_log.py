"""The topics and groups of a broker, and the server of a process, read from outside."""

import urllib.error
import urllib.request
from functools import partial

from confluent_kafka import Consumer, Message, TopicPartition

from benchmarks.cluster import answered
from haltline.streams.kafka.log_reader import LogReader


def get(port: int | None, path: str) -> tuple[int, str]:
    """Status and body of a process' own server; status 0 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


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

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """By partition: the committed offset; 0 when there is none."""
        consumer = self._join(group)
        try:
            partitions = [TopicPartition(topic, number) for number in self.ends(topic)]
            tps = answered(lambda: consumer.committed(partitions, timeout=10))
        finally:
            consumer.close()
        return {tp.partition: max(tp.offset, 0) for tp in tps}
