"""The checks of a chaos run: each passes on the expected content, and finds differences."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from benchmarks.chaos import verify
from benchmarks.chaos.expected import Place, Truth, work_out
from benchmarks.cluster import PARTITIONS
from benchmarks.load import Load, generate
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.dead_letter import DeadLetter
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.replay.records import LogRecord

TOPICS = Topics("t.")
CHANGELOG = "changelog"
LOAD = Load(
    events=800, sessions=20, start_ms=1_750_000_000_000, runaway_share=0.5, destructive_share=0.05, await_verdicts=True
)


class Log:
    """Topics as a broker would keep them."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self._ends: dict[tuple[str, int], int] = {}

    def append(
        self, topic: str, key: str, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> LogRecord:
        partition = partition_of(key, PARTITIONS)
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        record = LogRecord(topic, partition, offset, LOAD.start_ms, key.encode(), value, headers)
        self.records.append(record)
        return record

    def of(self, topic: str) -> list[LogRecord]:
        return [record for record in self.records if record.topic == topic]

    def copy(self) -> "Log":
        other = Log()
        other.records, other._ends = [*self.records], dict(self._ends)
        return other

    def by_place(self) -> dict[Place, LogRecord]:
        return {(record.topic, record.partition, record.offset): record for record in self.records}


@dataclasses.dataclass
class Case:
    """A run in which nothing went wrong."""

    log: Log
    truth: Truth
    events_by_session: dict[str, int]

    @property
    def states(self) -> dict[str, Any]:
        return verify.last_states(self.log.of(CHANGELOG), lambda _, value: orjson.loads(value))


def truth_with_signals(log: Log) -> Truth:
    """The expected results; signals are written to the log until there are no new ones."""
    reported: set[str] = set()
    while True:  # what is told to an agent makes it tell the fleet
        truth = work_out(log.of(TOPICS.actions), log.of(TOPICS.commands), log.of(TOPICS.signals), TOPICS)
        for signal_id in sorted(truth.signals.keys() - reported):
            signal = truth.signals[signal_id]
            log.append(TOPICS.signals, signal["id"], orjson.dumps(signal))
        if reported == truth.signals.keys():
            return truth
        reported |= truth.signals.keys()


@pytest.fixture
def case(made: Case) -> Case:
    """One that the test may change."""
    return Case(made.log.copy(), made.truth, dict(made.events_by_session))


@pytest.fixture(scope="module")
def made() -> Case:
    log = Log()
    counts: dict[str, int] = {}
    for number, sent in enumerate(generate(LOAD)):
        log.append(TOPICS.actions, sent.session_id, sent.value)
        counts[sent.session_id] = counts.get(sent.session_id, 0) + 1
        if number % 50 == 0:
            log.append(TOPICS.actions, sent.session_id, sent.value)  # its producer sends it twice
        if number % 200 == 0:
            log.append(TOPICS.actions, sent.session_id, b"not JSON \xff")
    for kind in (CommandKind.KILL, CommandKind.RESET, CommandKind.KILL):
        command = Command(command_id=f"c-{kind}", kind=kind, id="boss", by="m", reason="r", time=LOAD.start_ms)
        log.append(TOPICS.commands, "boss", command.to_json())
    truth = truth_with_signals(log)
    for session, state in truth.states.items():
        log.append(CHANGELOG, session, orjson.dumps(state))
    for topic, expected in ((TOPICS.interventions, truth.decisions), (TOPICS.detections, truth.detections)):
        for record in expected.values():
            log.append(topic, record["session_id"], orjson.dumps(record))
    for key, entry in truth.control.items():
        log.append(TOPICS.control, key, orjson.dumps(entry))
    by_place = log.by_place()
    for place, reason in truth.dead.items():
        bad = by_place[place]
        letter = DeadLetter(
            reason=reason, detail="", topic=place[0], partition=place[1], offset=place[2], timestamp_ms=0
        )
        log.append(TOPICS.dead_letter, (bad.key or b"").decode(), bad.value, letter.headers())
    return Case(log, truth, counts)


CHECKS: dict[str, tuple[str, Callable[[Case, list[LogRecord]], verify.Check]]] = {
    "counts": (CHANGELOG, lambda case, _: verify.check_counts(case.events_by_session, case.states)),
    "states": (CHANGELOG, lambda case, _: verify.check_states(case.truth, case.states)),
    "decisions": (TOPICS.interventions, lambda case, found: verify.check_decisions(case.truth, found)),
    "detections": (TOPICS.detections, lambda case, found: verify.check_detections(case.truth, found)),
    "signals": (TOPICS.signals, lambda case, found: verify.check_signals(case.truth, found)),
    "control": (TOPICS.control, lambda case, found: verify.check_control(case.truth, found)),
    "dead letters": (
        TOPICS.dead_letter,
        lambda case, found: verify.check_dead_letters(case.truth, case.log.by_place(), found),
    ),
}
"""By name: the topic that is compared, and the check of its records."""


def checked(name: str, case: Case) -> verify.Check:
    topic, check = CHECKS[name]
    return check(case, case.log.of(topic))


def changed(record: LogRecord) -> LogRecord:
    """One that says something else."""
    return record._replace(value=orjson.dumps(orjson.loads(record.value or b"") | {"agent_id": "x"}))


@pytest.mark.parametrize("name", CHECKS)
def test_nothing_differs_when_all_is_there_or_comes_again_and_a_lost_record_is_found(case: Case, name: str) -> None:
    records = case.log.of(CHECKS[name][0])
    assert checked(name, case).differences == ()
    case.log.records.append(records[0]._replace(offset=10_000))
    assert checked(name, case).ok
    del case.log.records[-1]
    case.log.records.remove(next(r for r in records if r.key != b"boss"))
    assert len(checked(name, case).differences) == 1


@pytest.mark.parametrize("name", ["decisions", "detections", "control", "states"])
def test_a_record_that_says_something_else_is_found(case: Case, name: str) -> None:
    at = next(i for i, r in enumerate(case.log.records) if r.topic == CHECKS[name][0] and r.key != b"boss")
    case.log.records[at] = changed(case.log.records[at])
    assert len(checked(name, case).differences) == 1


def test_the_audit_must_hold_each_record_once_with_its_bytes() -> None:
    log: dict[Place, bytes | None] = {("t", 0, 0): b"a", ("t", 0, 1): None}
    assert verify.check_audit([(("t", 0, 1), None), (("t", 0, 0), b"a")], log).ok
    for rows in (
        [(("t", 0, 0), b"a")],
        [(("t", 0, 0), b"a"), (("t", 0, 0), b"a"), (("t", 0, 1), None)],
        [(("t", 0, 0), b"b"), (("t", 0, 1), None)],
        [(("t", 0, 0), b"a"), (("t", 0, 1), None), (("t", 1, 0), b"a")],
    ):
        assert len(verify.check_audit(rows, log).differences) == 1
