"""Groups of workers over one log, in this process, with their output and state."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from haltline.schemas.control import Command, Feedback
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.schemas.record import Record
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.engine.groups import Runs
from haltline.streams.policy.source import News
from haltline.streams.replay.records import LogRecord
from haltline.streams.replay.replay_worker import ReplayMeter
from haltline.streams.sessions.processor import SessionProcessor

TOPICS = Topics()
Input = ActionEvent | Command | Feedback
Written = tuple[str, bytes | None, bytes | None]


class Group:
    """A group with one worker, which reads a log of one partition."""

    def __init__(self, policy: Policy, runs: Runs) -> None:
        self.runs = runs
        self.now_ms = 0
        self.values: dict[bytes, bytes] = {}
        """Its changelog: the last state of each key."""
        self.written: list[Written] = []
        self.inputs: deque[Written] = deque()
        """Its own records that it reads."""
        self.meter = ReplayMeter()
        self.news: deque[News] = deque()
        self._core = Core(policy, runs=runs)
        self.restart()

    def restart(self) -> None:
        """Restart as a process that begins with the changelog's states."""
        self.pipeline = SessionProcessor(
            self._core,
            topics=TOPICS,
            partitions=1,
            load=self.values.get,
            outbox=self,
            metrics=self.meter,
            policies=lambda: [self.news.popleft() for _ in range(len(self.news))],
            now_ms=lambda: self.now_ms,
        )
        self.pipeline.recovered(0, self.values)

    def follow(self, policy: Policy) -> None:
        """From now on this policy is in force."""
        self._core = Core(policy, runs=self.runs)
        self.news.append(self._core)

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        assert topic != TOPICS.dead_letter, dict(headers)
        self.written.append((topic, key, value))
        if topic in TOPICS.session_sources:
            self.inputs.append((topic, key, value))

    def take(self, record: LogRecord) -> None:
        """Processes a record, and what is due by then."""
        self.now_ms = max(self.now_ms, record.timestamp)
        self.pipeline.process((record,))
        self.pipeline.tick()

    def checkpoint(self) -> None:
        """Keeps what changed."""
        self.values |= {key: state for _, key, state in self.pipeline.changed() if state is not None}


class Log:
    """One log, and the groups that read it: the first of them writes what all of them read."""

    def __init__(self, policy: Policy, *runs: Runs) -> None:
        self.groups = [Group(policy, one) for one in runs]
        self.records: list[LogRecord] = []
        self._next: dict[str, int] = {}

    def run(self, inputs: Iterable[Input], *, restart_every: int = 0, change: dict[int, Policy] | None = None) -> "Log":
        """Takes in all of it, each with what follows from it; `change`: policies from the input of a number on."""
        for number, one in enumerate(inputs):
            for group in self.groups:
                if change is not None and number in change:
                    group.follow(change[number])
            key = one.id if isinstance(one, Command) else one.session_id
            self._add(_topic(one), key.encode(), one)
            if restart_every and number % restart_every == restart_every - 1:
                for group in self.groups:
                    group.checkpoint()
                    group.restart()
        for group in self.groups:
            group.checkpoint()
        return self

    def _add(self, topic: str, key: bytes, one: Input) -> None:
        waiting: deque[Written] = deque([(topic, key, one.to_json())])
        while waiting:
            result, about, value = waiting.popleft()
            offset = self._next.get(result, 0)
            self._next[result] = offset + 1
            record = LogRecord(result, 0, offset, one.time, about, value)
            self.records.append(record)
            for group in self.groups:
                group.take(record)
            waiting.extend(self.groups[0].inputs)
            for group in self.groups:
                group.inputs.clear()

    def written(self) -> Counter[str]:
        """The records of all groups by content, without their times."""
        return Counter(
            f"{topic} {key!r} {_said(value)}" for group in self.groups for topic, key, value in group.written
        )

    def of(self, topic: str, group: int = 0) -> list[Any]:
        """The records of a group on a topic."""
        written = self.groups[group].written
        return [orjson.loads(value) for name, _, value in written if name == topic and value is not None]


def _topic(one: Record) -> str:
    if isinstance(one, Command):
        return TOPICS.commands
    return TOPICS.feedback if isinstance(one, Feedback) else TOPICS.actions


def _said(value: bytes | None) -> str:
    if value is None:
        return "removed"
    return orjson.dumps({k: v for k, v in orjson.loads(value).items() if k != "decided_at"}).decode()
