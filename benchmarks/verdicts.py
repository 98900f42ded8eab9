"""Probes of a group of workers: it works when one event per partition has got its verdict."""

import time
from collections.abc import Sequence
from functools import partial

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.cluster import PARTITIONS, QUIET, answered
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode
from haltline.streams.local.subprocesses import Child

_ANSWER_WITHIN_S = 300.0


class Probe:
    """Send the events. `label` is part of the sessions' ids, and must be unique for each probe of a topic."""

    def __init__(self, bootstrap: str, topics: Topics, label: str) -> None:
        self._topic = topics.interventions
        self._waiting = _ask(bootstrap, topics, label)
        self._answers = Consumer({"bootstrap.servers": bootstrap, "group.id": "verdict-probe"}, logger=QUIET)
        ends = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        for end in ends:
            bounds = answered(partial(self._answers.get_watermark_offsets, end, timeout=10))
            if bounds is None:
                raise RuntimeError(f"{self._topic}: expected its end, got none")
            end.offset = bounds[1]
        self._answers.assign(ends)

    def wait(self, workers: Sequence[Child]) -> None:
        """Wait until every partition has answered. Raises ChildDied, or RuntimeError at the timeout."""
        deadline = time.perf_counter() + _ANSWER_WITHIN_S
        while self._waiting:
            for worker in workers:
                worker.require_running()
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{self._topic}: expected verdicts in {_ANSWER_WITHIN_S:.0f} s, got not all")
            message = self._answers.poll(0.1)
            if message is not None and message.error() is None:
                self._waiting.discard(decode(Decision, message.value()).event_id)
        self._answers.close()


def _ask(bootstrap: str, topics: Topics, label: str) -> set[str]:
    """Produce one event that awaits a verdict to each partition; return the events' ids."""
    by_partition = {partition_of(name, PARTITIONS): name for name in (f"probe-{label}-{n}" for n in range(64))}
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"}, logger=QUIET)
    for session in by_partition.values():
        event = ActionEvent(
            event_id=f"{session}-event",
            kind=Kind.PROPOSED,
            session_id=session,
            time=time.time_ns() // 1_000_000,
            action="read_file",
            call_id=f"{session}-call",
            await_verdict=True,
        )
        producer.produce(topics.actions, key=session.encode(), value=event.to_json())
    if producer.flush(30):
        raise RuntimeError(f"{topics.actions}: expected the probes delivered in 30 s, got fewer")
    return {f"{session}-event" for session in by_partition.values()}
