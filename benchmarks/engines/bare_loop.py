"""A loop on confluent-kafka alone: the cost of the same work without a framework.

It reads a thousand records at a time, keeps a dictionary by session, and once a second writes
each changed state to a changelog topic, waits until that is delivered, and commits. `count`
decodes the JSON and counts events by session; `detect` checks each record as an ActionEvent,
runs haltline's own core, and sends its detections and decisions. It has no recovery, no rebalance
handling, no metrics and no dead letter topic.
"""

import sys
import time
from collections.abc import Callable, Sequence

import orjson
from confluent_kafka import KafkaError, Message, Producer

from benchmarks.engines import clients
from benchmarks.rules import only
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode_event
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.sessions import state_codec

_CHECKPOINT_EVERY_S = 1.0
_DELIVER_WITHIN_S = 30.0

Apply = Callable[[Message], str]
"""Processes one record; returns the session whose state changed."""


class Counts:
    """Events by session."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def apply(self, message: Message) -> str:
        event = orjson.loads(message.value() or b"")
        session: str = event["session_id"]
        self._counts[session] = self._counts.get(session, 0) + 1
        return session

    def encode(self, session: str) -> bytes:
        return orjson.dumps({"events": self._counts[session]})


class Detections:
    """The state of haltline's core by session."""

    def __init__(self, producer: Producer, topics: Topics, rules: Sequence[str]) -> None:
        self._core = Core(only(rules))
        self._producer = producer
        self._topics = topics
        self._states: dict[str, SessionState] = {}

    def apply(self, message: Message) -> str:
        event = decode_event(message.value(), message.headers() or ())  # type: ignore[arg-type]  # we produce bytes
        at = Position(self._topics.actions, message.partition() or 0, message.offset() or 0)
        outcome = self._core.on_event(self._states.get(event.session_id), event, at)
        self._states[event.session_id] = outcome.state
        for detection in outcome.detections:
            self._producer.produce(self._topics.detections, key=event.session_id, value=detection.to_json())
        if outcome.decision is not None:
            self._producer.produce(self._topics.interventions, key=event.session_id, value=outcome.decision.to_json())
        return event.session_id

    def encode(self, session: str) -> bytes:
        return state_codec.encode(self._states[session])


def run(bootstrap: str, topics: Topics, group: str, changelog: str, rules: Sequence[str] | None) -> None:
    """Run until SIGTERM; without rules, count only."""
    stopped = clients.stopping()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "linger.ms": 0,
            "queue.buffering.max.messages": 500_000,
        }
    )
    consumer = clients.committing_consumer(bootstrap, group)
    work = Counts() if rules is None else Detections(producer, topics, rules)
    consumer.subscribe([topics.actions])
    changed: set[str] = set()
    checkpoint_at = time.monotonic() + _CHECKPOINT_EVERY_S
    while not stopped.is_set():
        for message in consumer.consume(1000, timeout=0.1):
            error = message.error()
            if error is not None:
                raise RuntimeError(f"{topics.actions}: expected a record, got {error}")
            changed.add(work.apply(message))
        if time.monotonic() >= checkpoint_at and changed:
            _checkpoint(producer, changelog, work, changed)
            consumer.commit(asynchronous=False)
            changed.clear()
            checkpoint_at = time.monotonic() + _CHECKPOINT_EVERY_S
    consumer.close()


def _checkpoint(producer: Producer, changelog: str, work: Counts | Detections, changed: set[str]) -> None:
    for session in changed:
        while True:
            try:
                producer.produce(changelog, key=session, value=work.encode(session), on_delivery=_delivered)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(_DELIVER_WITHIN_S):
        raise RuntimeError(f"{changelog}: expected every state delivered in {_DELIVER_WITHIN_S:.0f} s, got fewer")


def _delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise RuntimeError(f"{message.topic()}: expected a state delivered, got {error}")


def main(arguments: Sequence[str] | None = None) -> int:
    args = clients.work_options(__doc__, "changelog").parse_args(arguments)
    rules = [name for name in args.rules.split(",") if name] if args.variant == "detect" else None
    run(args.bootstrap, Topics(args.prefix), args.group, args.changelog, rules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
