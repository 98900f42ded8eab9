"""The worker's own main path over recorded inputs, without a broker, a clock or a metric of its own."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.processor import SessionProcessor

MAX_LIVE: Final = 20_000
"""States that are held as objects; the rest is held as the worker would write it."""

_LIVE: Final = b""
"""Stands for a state that is held as an object."""
_PUT_AWAY_AT_A_TIME: Final = 500
_IDLE_AT_A_TIME: Final = 1_000

Json = dict[str, Any]


@dataclass(frozen=True)
class InForce:
    """A policy, and since when it is in force; the first one since ever."""

    since_ms: int
    core: Core


@dataclass(slots=True)
class ReplayOutput:
    """What one input led to, as it would have gone to the topics; encoded JSON, decoded."""

    decisions: list[Json] = field(default_factory=list)
    detections: list[Json] = field(default_factory=list)
    incidents: list[bytes] = field(default_factory=list)
    controls: list[tuple[str, Json | None]] = field(default_factory=list)
    """Key and entry; None: it was removed."""


class Replay:
    """Decides on recorded inputs as a worker would.

    Signals and haltline's own kills are in the log: those that are made again are dropped. With `follow` they are
    taken in at once instead, for a source that has none, such as a file of events.

    Nothing is done by the clock: what a worker does because time has passed (a kill sent again, an approval that
    nobody answered) is done only when a command comes, as the worker does before a command. What was idle for longer
    than the policy's `session_ttl_h` is dropped as a worker drops it, by the time of the records of its partition: so
    memory is bounded by what was active within that time.
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

    def record(self, record: LogRecord) -> ReplayOutput:
        """Takes in the next one; what follows from it."""
        self._out.output = output = ReplayOutput()
        self._take(record)
        while self._follow and self._out.inputs:
            topic, key, value = self._out.inputs.popleft()
            self._made += 1
            partition = partition_of(key.decode(), self._partitions)
            self._take(LogRecord(topic, partition, self._made, record.timestamp, key, value))
        self._out.inputs.clear()
        return output

    def pass_time(self, record: LogRecord) -> None:
        """Time passes in the partition of a record that is not taken in."""
        self._now_ms = record.timestamp
        self._processor.pass_time(record)
        self._drop_idle(record.partition)

    def state(self, session_id: str) -> Json | None:
        """What is remembered of a session now, by the names of its fields; None: nothing."""
        key = session_id.encode()
        here = self._slice(partition_of(session_id, self._partitions))
        live = self._processor.let_go(key)
        if live is not None:
            here.values[key] = live
        found = here.values.get(key)
        return state_codec.shown(state_codec.decode(found)) if found else None

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

    def _drop_idle(self, partition: int) -> None:
        """As a checkpoint does, after each record: the worker's checkpoints are about a second apart."""
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
    """Keeps what the main path sends."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.output = ReplayOutput()
        self.inputs: deque[tuple[str, bytes, bytes]] = deque()

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),  # noqa: ARG002  # only dead letters have some
    ) -> None:
        """Hands one record over."""
        topics = self._topics
        if topic == topics.interventions:
            self.output.decisions.append(orjson.loads(value or b"{}"))
        elif topic == topics.detections:
            self.output.detections.append(orjson.loads(value or b"{}"))
        elif topic == topics.incidents:
            self.output.incidents.append(value or b"{}")
        elif topic == topics.control:
            self.output.controls.append(((key or b"").decode(), None if value is None else orjson.loads(value)))
        elif topic in (topics.signals, topics.commands) and value is not None:
            self.inputs.append((topic, key or b"", value))


class ReplayMeter(Meter):
    """What of the main path is worth counting here; the rest was counted then."""

    def __init__(self) -> None:
        self.unreadable = 0
        self.failures = 0

    def detector_error(self, detector: str) -> None:  # noqa: ARG002  # which one, the dead letter says
        """A detector raised."""
        self.failures += 1

    def dead_letter(self, reason: BadRecord) -> None:  # noqa: ARG002  # all are counted as one
        """A record could not be used."""
        self.unreadable += 1
