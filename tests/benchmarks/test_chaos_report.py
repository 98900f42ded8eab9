"""The report of a failed chaos run: differences by place and owner, on one screen; and the verdicts of a series."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chaos import report
from benchmarks.chaos.history import histories
from benchmarks.chaos.owners import Owner, owners_of
from benchmarks.chaos.parting import Parted, Parting
from benchmarks.chaos.report import LINES, WIDTH, Compared
from benchmarks.chaos.verify import Check, Difference
from haltline.streams.engine.core import Position, SessionState
from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import EPOCH_HEADER, Epoch

FIRST, SECOND = Owner("worker-1.1", 41, 1, claim=0, at_ms=1_000), Owner("worker-2.3", 42, 1, claim=3579, at_ms=5_000)


# Who owned a partition.


IN_WORDS = "worker: owns partitions 1 (claim at offset 3579), 3 (claim at offset 4816)"
AS_A_MAPPING = "worker: owns changelog partitions {1: 3579, 3: 4816}"


@pytest.mark.parametrize("line", [IN_WORDS, AS_A_MAPPING])
def test_owners_are_read_from_the_logs_of_workers(tmp_path: Path, line: str) -> None:
    log = tmp_path / "worker-2.3.log"
    prefix = "2026-11-24 06:25:01,250 INFO haltline.streams.runtime.worker_process: "
    log.write_text(f"{prefix}worker: serves /metrics on port 1\n{prefix}{line}\nworker: owns nothing\n")
    owners = owners_of([log], {"worker-2.3": 42})
    assert owners.at_offset(1, 3578) is None
    assert str(owners.at_offset(1, 3579)) == "worker-2.3, pid 42, claim at 3579"
    assert str(owners.at_offset(3, 9999)) == "worker-2.3, pid 42, claim at 4816"
    assert owners.at_time(1, 0) == owners.at_offset(1, 3579)
    assert owners.at_offset(2, 9999) is None


# Where a state parts from the core's.


class Changelog:
    """One partition with states of some sessions that have seen so many events."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def state(self, session: str, *, at: int, events: int | None = None, epoch: int = 1) -> "Changelog":
        value = orjson.dumps({"events": at + 1 if events is None else events, "offsets": {"actions": at}})
        headers = [(EPOCH_HEADER, Epoch(epoch, 0).encode())]
        self.records.append(LogRecord("log", 1, len(self.records), 0, session.encode(), value, headers))
        return self

    def first(self, session: str, events: int) -> Parted | None:
        """The first difference from a core that has processed this many events, one at each offset of the source."""

        def read(_: bytes, value: bytes) -> dict[str, Any]:
            shown: dict[str, Any] = orjson.loads(value)
            return shown

        def events_alone(state: dict[str, Any]) -> dict[str, Any]:
            return {"events": state["events"]}

        parting = Parting(histories(self.records).values(), {session}, read, events_alone)
        for offset in range(events):
            parting.observe(session, Position("actions", 0, offset), SessionState(session, events=offset + 1))
        return parting.first(session)


PARTINGS: Mapping[str, tuple[Changelog, Parted | None]] = {
    "the first record that differs": (
        Changelog().state("s", at=1).state("t", at=1).state("s", at=3, events=2).state("s", at=4, events=3),
        Parted(1, 2, "differs from here on"),
    ),
    "the first late record behind the last that counts": (
        Changelog().state("s", at=1, epoch=5).state("t", at=1, epoch=7).state("s", at=3, epoch=6),
        Parted(1, 2, "late from here on: does not count"),
    ),
    "the last record, where none is behind it": (
        Changelog().state("s", at=1).state("s", at=2),
        Parted(1, 1, "nothing behind it"),
    ),
    "no record at all": (Changelog().state("t", at=1), None),
}


@pytest.mark.parametrize(("changelog", "parted"), PARTINGS.values(), ids=PARTINGS)
def test_a_state_parts_at(changelog: Changelog, parted: Parted | None) -> None:
    assert changelog.first("s", events=6) == parted


# What is shown of differences.


def compared(name: str, lines: int, differences: int = 1) -> Compared:
    found = tuple(Difference(f"{name}-{number}", "x" * 200) for number in range(differences))
    return Compared(Check(name, "some", found), [f"{name} line {number} {'y' * 200}" for number in range(lines)])


@given(st.lists(st.integers(0, 60), max_size=20), st.integers(0, 20))
def test_what_differs_fits_on_one_screen(lengths: list[int], good: int) -> None:
    wrong = [compared(f"check {number}", length) for number, length in enumerate(lengths)]
    shown = report.screen("head " * 100, [*wrong, *[Compared(Check("good", "all"))] * good], ["foot " * 100])
    assert len(shown) <= LINES
    assert all(len(line) <= WIDTH for line in shown)
    assert sum(line.startswith("WRONG") for line in shown) == len(lengths)
    if (whole := sum(lengths) + len(lengths) + 2 + bool(good)) <= LINES:
        assert len(shown) == whole


# A series of runs.
