"""The worker's own main path over recorded inputs, without a broker, a clock or a metric of its own."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.core import Core
from haltline.streams.policies import News
from haltline.streams.replay.records import LogRecord
from haltline.streams.sessions import SessionPipeline

MOST_LIVE: Final = 20_000
"""Sessions that are held as objects; the rest is held as the worker would write it."""

Json = dict[str, Any]


@dataclass(frozen=True)
class InForce:
    """A policy, and since when it is in force; the first one since ever."""

    since_ms: int
    core: Core


@dataclass(slots=True)
class Said:
    """What one input led to, as it would have gone to the topics; encoded JSON, decoded."""

    decisions: list[Json] = field(default_factory=list)
    detections: list[Json] = field(default_factory=list)
    controls: list[tuple[str, Json | None]] = field(default_factory=list)
    """Key and entry; None: it was removed."""


class Replay:
    """Decides on recorded inputs as a worker would.

    Signals and haltline's own kills are in the log: those that are made again are dropped. With `follow` they are
    taken in at once instead, for a source that has none, such as a file of events.

    Nothing is done by the clock: what a worker does because time has passed (a kill sent again, an approval that
    nobody answered) is done only when a command comes, as the worker does before a command.
    """

    def __init__(self, in_force: Sequence[InForce], *, topics: Topics, partitions: int, follow: bool = False) -> None:
        self._topics = topics
        self._partitions = partitions
        self._follow = follow
        self._now_ms = 0
        self._made = 0
        self._later = deque(in_force[1:])
        self._stored: dict[bytes, bytes] = {}
        self._out = _Out(topics)
        self.meter = ReplayMeter()
        self._pipeline = SessionPipeline(
            in_force[0].core,
            topics=topics,
            partitions=partitions,
            load=self._stored.get,
            outbox=self._out,
            metrics=self.meter,
            policies=self._news,
            now_ms=lambda: self._now_ms,
        )

    def record(self, record: LogRecord) -> Said:
        """Takes in the next one; what follows from it."""
        self._out.said = said = Said()
        self._take(record)
        while self._follow and self._out.inputs:
            topic, key, value = self._out.inputs.popleft()
            self._made += 1
            partition = partition_of(key.decode(), self._partitions)
            self._take(LogRecord(topic, partition, self._made, record.timestamp, key, value))
        self._out.inputs.clear()
        if self._pipeline.live > MOST_LIVE:
            self._store()
        return said

    def state(self, session_id: str) -> Json | None:
        """What is remembered of a session now, as a worker writes it; None: nothing."""
        self._store()
        found = self._stored.get(session_id.encode())
        return None if found is None else orjson.loads(found)

    def _take(self, record: LogRecord) -> None:
        self._now_ms = record.timestamp
        self._pipeline.process((record,))

    def _store(self) -> None:
        for _, key, state in self._pipeline.changed():
            self._stored[key] = state or b""

    def _news(self) -> Sequence[News]:
        found: list[News] = []
        while self._later and self._later[0].since_ms <= self._now_ms:
            found.append(self._later.popleft().core)
        return found


class _Out:
    """Keeps what the main path sends."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.said = Said()
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
            self.said.decisions.append(orjson.loads(value or b"{}"))
        elif topic == topics.detections:
            self.said.detections.append(orjson.loads(value or b"{}"))
        elif topic == topics.control:
            self.said.controls.append(((key or b"").decode(), None if value is None else orjson.loads(value)))
        elif topic in (topics.signals, topics.commands) and value is not None:
            self.inputs.append((topic, key or b"", value))


class ReplayMeter:
    """What of the main path is worth counting here; the rest was counted then."""

    def __init__(self) -> None:
        self.unreadable = 0
        self.failures = 0

    def finding(self, finding: Finding) -> None:
        """A finding of a detector."""

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        """A decision."""

    def judged(self, detector: str, level: str, helped: float) -> None:
        """How far an earlier intervention of a rule helped."""

    def stopped(self, time_to_stop_s: float) -> None:
        """A kill was acknowledged."""

    def followed(self, what: str) -> None:
        """Something that operators, answers or the clock have brought about."""

    def detector_error(self, detector: str) -> None:  # noqa: ARG002  # which one, the dead letter says
        """A detector raised."""
        self.failures += 1

    def dead_letter(self, reason: BadRecord) -> None:  # noqa: ARG002  # all are counted as one
        """A record could not be used."""
        self.unreadable += 1

    def policy(self, name: str, version: int) -> None:
        """A policy is in force from now on."""

    def policy_refused(self) -> None:
        """A policy document could not be used."""
