"""The worker's own main path over recorded inputs, without a broker, a clock or metrics."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.policy.source import News
from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.runtime.ports import Meter
from haltline.streams.sessions.processor import SessionProcessor

MAX_LIVE: Final = 20_000
"""The most states held as objects; the rest is held encoded, as the worker would write it."""

_LIVE: Final = b""
"""A marker for a state that is held as an object."""
_PUT_AWAY_AT_A_TIME: Final = 500
_IDLE_AT_A_TIME: Final = 1_000

Json = dict[str, Any]


@dataclass(frozen=True)
class InForce:
    """A policy, and since when it is in force; the first one has no start."""

    since_ms: int
    core: Core


class Replay:
    """Decides on recorded inputs as a worker would.

    Signals and haltline's own kills are in the log, so new ones are dropped. With `follow` they are applied at once
    instead, for a source without them, such as a file of events.

    The clock causes nothing: what a worker does because time has passed (a repeated kill, an expired approval) happens
    only before a command, as in the worker. States idle for longer than the policy's `session_ttl_h` are dropped as in
    a worker, by the time of the records of their partition: so memory is bounded by the sessions active within that
    time.
    """

    def __init__(self, in_force: Sequence[InForce], *, topics: Topics, partitions: int, follow: bool = False) -> None:
        self._topics = topics
        self._partitions = partitions
        self._follow = follow
        self._now_ms = 0
        self._made = 0
        self._later = deque(in_force[1:])
        self._partition_states: dict[int, PartitionState] = {}
        self._here = PartitionState(0)
        self._out = _Out(topics)
        self.meter = ReplayMeter()
        self._processor = SessionProcessor(
            in_force[0].core,
            topics=topics,
            partitions=partitions,
            load=self._load,
            outbox=self._out,
            metrics=self.meter,
            policies=self._news,
            now_ms=lambda: self._now_ms,
        )

    def record(self, record: LogRecord) -> list[Json]:
        """Apply the next record. Returns its decisions, as they would have been published."""
        decisions: list[Json] = []
        self._out.decisions = decisions
        self._take(record)
        while self._follow and self._out.inputs:
            topic, key, value = self._out.inputs.popleft()
            self._made += 1
            partition = partition_of(key.decode(), self._partitions)
            self._take(LogRecord(topic, partition, self._made, record.timestamp, key, value))
        self._out.inputs.clear()
        return decisions

    def _take(self, record: LogRecord) -> None:
        self._now_ms = record.timestamp
        self._here = self._slice(record.partition)
        self._processor.process((record,))
        key = self._processor.touched
        if key is not None:
            self._here.put(key, _LIVE, record.timestamp)
        self._drop_idle(record.partition)
        if self._processor.live > MAX_LIVE + _PUT_AWAY_AT_A_TIME:
            for partition, away, state in self._processor.put_away(MAX_LIVE):
                self._slice(partition).values[away] = state

    def pass_time(self, record: LogRecord) -> None:
        """Advance the time of a partition by a record that is not applied."""
        self._now_ms = record.timestamp
        self._processor.pass_time(record)
        self._drop_idle(record.partition)

    def _drop_idle(self, partition: int) -> None:
        """Drop idle states after each record, like a checkpoint: a worker's checkpoints are about a second apart."""
        here = self._slice(partition)
        for key in here.take_idle(self._processor.idle_before_ms(partition), _IDLE_AT_A_TIME):
            encoded = self._processor.let_go(key) or here.values[key]
            if self._processor.retain_when_idle(key, encoded):
                here.values[key] = encoded
            else:
                here.put(key, None, 0)

    def _slice(self, partition: int) -> PartitionState:
        found = self._partition_states.get(partition)
        if found is None:
            found = self._partition_states[partition] = PartitionState(partition)
        return found

    def _load(self, key: bytes) -> bytes | None:
        return self._here.values.get(key) or None

    def _news(self) -> Sequence[News]:
        found: list[News] = []
        while self._later and self._later[0].since_ms <= self._now_ms:
            found.append(self._later.popleft().core)
        return found


class _Out:
    """A Sender that keeps the decisions, signals and commands of the main path."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.decisions: list[Json] = []
        self.inputs: deque[tuple[str, bytes, bytes]] = deque()

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),  # noqa: ARG002  # only dead letters have some
    ) -> None:
        """Keep one record."""
        if topic == self._topics.interventions:
            self.decisions.append(orjson.loads(value or b"{}"))
        elif topic in (self._topics.signals, self._topics.commands) and value is not None:
            self.inputs.append((topic, key or b"", value))


class ReplayMeter(Meter):
    """A Meter of failures and bad records only; the rest was counted during the recording."""

    def __init__(self) -> None:
        self.unreadable = 0
        self.failures = 0

    def detector_error(self, detector: str) -> None:  # noqa: ARG002  # which one, the dead letter says
        """Count an exception of a detector."""
        self.failures += 1

    def dead_letter(self, reason: BadRecord) -> None:  # noqa: ARG002  # all are counted as one
        """Count a record that could not be used."""
        self.unreadable += 1
