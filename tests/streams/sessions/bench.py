"""The worker's main path, without a broker: records in, records out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from haltline.schemas.control import Command, CommandKind
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.record import Record
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.policy.source import News
from haltline.streams.replay.records import LogRecord
from haltline.streams.replay.replay_worker import ReplayMeter
from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.sessions.processor import SessionProcessor
from tests.builders import T0_MS, at

TOPICS = Topics()
PARTITIONS = 4
SESSION = "s1"
HOME = partition_of(SESSION, PARTITIONS)
ELSEWHERE = next(name for name in (f"x{n}" for n in range(100)) if partition_of(name, PARTITIONS) != HOME)
OTHERS = [name for name in (f"t{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME]
"""Further sessions on the partition of `SESSION`."""
DAY_S = 86_400


@dataclass
class Sent:
    """A sender that is a list."""

    records: list[tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = field(default_factory=list)

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        self.records.append((topic, key, value, list(headers)))

    def of(self, topic: str) -> list[bytes | None]:
        return [value for name, _, value, _ in self.records if name == topic]


class Counted(ReplayMeter):
    """A meter with lists of what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.policies: list[tuple[str, int]] = []

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        self.told.append(f"decision {decision.level.value} after {latency_s} s")

    def event_ahead(self) -> None:
        self.told.append("event ahead")

    def detector_error(self, detector: str) -> None:
        self.told.append(f"{detector} raised")

    def dead_letter(self, reason: BadRecord) -> None:
        self.told.append(f"dead letter {reason}")

    def policy(self, name: str, version: int) -> None:
        self.policies.append((name, version))

    def policy_refused(self) -> None:
        self.told.append("policy refused")


class Bench:
    """A pipeline with a table of its own, in which it is never later than the latest record that was put."""

    def __init__(
        self,
        *,
        max_live_sessions: int = 100,
        core: Core | None = None,
        slices: Sequence[PartitionState] | None = None,
    ) -> None:
        self.slices = slices or [PartitionState(number) for number in range(PARTITIONS)]
        self.now_ms = T0_MS + 100_000
        self.sent = Sent()
        self.counted = Counted()
        self.offsets: dict[tuple[str, int], int] = {}
        self.news: list[News] = []
        self.pipeline = SessionProcessor(
            core or Core(),
            topics=TOPICS,
            partitions=PARTITIONS,
            load=lambda key: next((part.values[key] for part in self.slices if key in part.values), None),
            outbox=self.sent,
            metrics=self.counted,
            policies=self._take_news,
            max_live_sessions=max_live_sessions,
            now_ms=lambda: self.now_ms,
        )

    @property
    def table(self) -> dict[bytes, bytes]:
        return {key: value for part in self.slices for key, value in part.values.items()}

    @property
    def decisions(self) -> list[Decision]:
        return [Decision.model_validate_json(value or b"") for value in self.sent.of(TOPICS.interventions)]

    @property
    def letters(self) -> list[DeadLetter]:
        return [
            DeadLetter.from_record(key, value, headers)
            for topic, key, value, headers in self.sent.records
            if topic == TOPICS.dead_letter
        ]

    def _take_news(self) -> list[News]:
        taken, self.news = self.news, []
        return taken

    def put(
        self,
        topic: str,
        value: bytes | Record | None,
        *,
        partition: int = HOME,
        second: float = 0,
        headers: Sequence[tuple[str, bytes]] = (),
        offset: int | None = None,
        ahead: bool = False,
    ) -> None:
        at = self.offsets.get((topic, partition), 0) if offset is None else offset
        self.offsets[topic, partition] = at + 1
        raw = value.to_json() if isinstance(value, Record) else value
        time_ms = T0_MS + round(second * 1000)
        if not ahead:
            self.now_ms = max(self.now_ms, time_ms)
        self.pipeline.process([LogRecord(topic, partition, at, time_ms, b"k", raw, headers)])

    def deletes(self, *seconds: float, session: str = SESSION) -> None:
        """One table is deleted again and again."""
        for second in seconds:
            self.put(TOPICS.actions, delete(second, session), second=second)

    def checkpoint(self) -> dict[bytes, bytes | None]:
        changes = list(self.pipeline.changed())
        handed_out = {key for _, key, _ in changes}
        for part in self.slices:
            for key in part.take_idle(self.pipeline.idle_before_ms(part.partition), 1000):
                if key not in handed_out and not self.pipeline.retain_when_idle(key, part.values[key]):
                    changes.append((part.partition, key, None))
        for partition, key, value in changes:
            self.slices[partition].put(key, value, self.now_ms)
        return {key: value for _, key, value in changes}


def delete(second: float, session: str = SESSION, **fields: object) -> bytes:
    event = {"event_id": f"{session}@{second}", "kind": "action.proposed", "time": at(second)}
    of = {"session_id": session, "agent_id": "cleaner", "call_id": f"c@{second}"}
    return orjson.dumps(event | of | {"action": "delete_asset", "args": {"asset_id": "fact_sales"}} | fields)


def killed_bench() -> Bench:
    bench = Bench()
    bench.deletes(0, 6, 12)
    return bench


def operator(kind: CommandKind, scope: ScopeKind = ScopeKind.SESSION, scope_id: str = SESSION) -> Command:
    return Command(command_id="k", kind=kind, scope=scope, id=scope_id, by="alice", reason="agreed", time=T0_MS)
