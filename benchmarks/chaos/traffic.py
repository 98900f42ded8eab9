"""The load of a chaos run: events at a steady rate, some twice, bad records among them, operators' commands."""

import random
import threading
import time
from collections import Counter, deque
from typing import Final

import orjson
from confluent_kafka import KafkaError, Message, Producer

from benchmarks.cluster import PARTITIONS, QUIET
from benchmarks.load import Load, Sent, generate
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.delivery import undelivered
from haltline.schemas.partitioner import CONFIRMED, partition_of
from haltline.schemas.topics import Topics

_TWICE_SHARE: Final = 0.05
_BAD_SHARE: Final = 0.01
_COMMAND_SHARE: Final = 0.005
_DELIVER_WITHIN_S: Final = 180.0
_LOOK_EVERY_S: Final = 0.1


class Traffic:
    """Produces in a thread, and counts what it produced: `events_by_session`, `bad`, `commands`."""

    def __init__(self, bootstrap: str, topics: Topics, load: Load, rate: int) -> None:
        self.topics = topics
        self.events_by_session: Counter[str] = Counter()
        """The number of distinct events by session."""
        self.produced = 0
        self.bad = 0
        self.commands = 0
        self._load = load
        self._rate = rate
        self._rng = random.Random(load.seed)
        self._failures: list[str] = []
        self._ended = threading.Event()
        self._may_go = threading.Event()
        self._may_go.set()
        self._rests = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                **CONFIRMED,
                "linger.ms": 5,
                "message.max.bytes": 4 * 1024 * 1024,
                "delivery.timeout.ms": int(_DELIVER_WITHIN_S * 1000),
            },
            logger=QUIET,
        )
        self._thread = threading.Thread(target=self._run, name="traffic")

    def start(self) -> None:
        """Start to produce."""
        self._thread.start()

    def stop(self) -> None:
        """Stop producing."""
        self._ended.set()

    def pause(self) -> None:
        """Pause until `go_on`; return when all records so far are delivered."""
        self._may_go.clear()
        while self.running and not self._rests.wait(_LOOK_EVERY_S):
            pass

    def go_on(self) -> None:
        """Continue after `pause`."""
        self._rests.clear()
        self._may_go.set()

    @property
    def running(self) -> bool:
        """Return whether it still produces."""
        return self._thread.is_alive()

    def finish(self) -> None:
        """Wait for the end. Raises RuntimeError when a record was not delivered or the thread failed."""
        self._thread.join()
        if self._failures:
            raise RuntimeError(f"load: expected every record delivered, got {self._failures[:3]}")

    def _run(self) -> None:
        try:
            self._produce_all()
            if waiting := self._producer.flush(_DELIVER_WITHIN_S):
                self._failures.append(f"{waiting} records without an answer")
        except Exception as error:  # raised again in the thread that waits
            self._failures.append(repr(error))

    def _produce_all(self) -> None:
        later: deque[Sent] = deque()
        began = time.perf_counter()
        for number, sent in enumerate(generate(self._load)):
            if self._ended.is_set():
                return
            if not self._may_go.is_set():
                began += self._pause()
                later.clear()  # states that begin anew would count them again
            # A poll returns at the first delivery report.
            while (pause_s := began + number / self._rate - time.perf_counter()) > 0:
                self._producer.poll(pause_s)
            self._send(sent.session_id, sent.value)
            self.events_by_session[sent.session_id] += 1
            if self._rng.random() < _TWICE_SHARE:
                later.append(sent)
            if later and self._rng.random() < 2 * _TWICE_SHARE:
                again = later.popleft()
                self._send(again.session_id, again.value)
            if self._rng.random() < _BAD_SHARE:
                self._send_bad(sent)
            if self._rng.random() < _COMMAND_SHARE:
                self._send_command()

    def _pause(self) -> float:
        """Return how long it has paused, in seconds."""
        paused = time.perf_counter()
        self._producer.flush(_DELIVER_WITHIN_S)
        self._rests.set()
        while not (self._may_go.wait(_LOOK_EVERY_S) or self._ended.is_set()):
            self._producer.poll(0)
        return time.perf_counter() - paused

    def _send(self, key: str, value: bytes | None, topic: str | None = None) -> None:
        self.produced += 1
        while True:
            try:
                self._producer.produce(topic or self.topics.actions, key=key, value=value, on_delivery=self._delivered)
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(f"{message.topic()}: {error}")
        elif undelivered(error, message) is not None:
            key, value = message.key(), message.value()
            self._producer.produce(str(message.topic()), key=key, value=value, on_delivery=self._delivered)

    def _send_bad(self, sent: Sent) -> None:
        """Produce a malformed record, which must reach the dead letter topic unchanged."""
        elsewhere = next(
            key
            for key in (f"elsewhere-{n}" for n in range(1000))
            if partition_of(key, PARTITIONS) != partition_of(sent.session_id, PARTITIONS)
        )
        fields = orjson.loads(sent.value)
        fresh = orjson.dumps(fields | {"event_id": f"bad-{self.bad}"})
        key, value = self._rng.choice(
            [
                (sent.session_id, b"not JSON \xff"),
                (sent.session_id, None),
                (sent.session_id, b'{"event_id": "no session"}'),
                (sent.session_id, orjson.dumps(fields | {"v": 99})),
                (sent.session_id, orjson.dumps(fields | {"time": "9999-12-31T00:00:00Z"})),
                (sent.session_id, orjson.dumps(fields | {"args": {"text": "a" * 1_100_000}})),
                (elsewhere, fresh),
            ]
        )
        self._send(key, value)
        self.bad += 1

    def _send_command(self) -> None:
        """Produce kills and resets of sessions that send no events, so that only the order of commands matters."""
        number = self.commands
        command = Command(
            command_id=f"command-{number}",
            kind=self._rng.choice([CommandKind.KILL, CommandKind.KILL, CommandKind.RESET]),
            id=f"commanded-{self._rng.randrange(20)}",
            by="chaos",
            reason=f"number {number}",
            time=self._load.start_ms + number,
        )
        self._send(command.id, command.to_json(), self.topics.commands)
        self.commands += 1
