"""Each record once, whatever happens between reading, writing and knowing that it was written."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from haltline.streams.audit.memory import MemoryAuditTable, Step
from haltline.streams.audit.table import AuditTable, TableConflict
from haltline.streams.audit.writer import AnotherLog, AuditWriter, Place
from tests.streams.audit.records import NOW_MS, TOPICS
from tests.streams.audit.tables import CONTROL, FIRST, add, writer

Positions = Callable[[AuditTable], list[tuple[str, int, int]]]


def at(place: Place, *offsets: int) -> list[tuple[str, int, int]]:
    return [(*place, offset) for offset in offsets]


def marked(table: AuditTable, number: int, **more: bool) -> AuditWriter:
    return writer(table, marks={"audit#cluster": number}, **more)


def test_what_was_read_is_written_once_and_the_next_writer_goes_on_behind_it(
    table: AuditTable, positions: Positions
) -> None:
    first = writer(table)
    assert first.assign([FIRST, CONTROL]) == {FIRST: None, CONTROL: None}
    assert add(first, FIRST, 0, 1, 1, 0, 2) == [True, True, False, False, True]  # not what was read before
    add(first, CONTROL, 5)
    flushed = first.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({FIRST: 2, CONTROL: 5}, {})
    assert flushed.rows == {TOPICS.actions: 3, TOPICS.control: 1}
    assert flushed.unreadable == {TOPICS.control: 1}
    assert add(first, FIRST, 1, 2, 7) == [False, False, True]  # offsets may have gaps
    assert first.flush(NOW_MS).committed == {FIRST: 7}
    assert writer(table).assign([FIRST, CONTROL]) == {FIRST: 7, CONTROL: 5}
    assert positions(table) == [*at(FIRST, 0, 1, 2, 7), *at(CONTROL, 5)]


def test_a_writer_that_meets_others_at_each_try_gives_up_with_the_conflict() -> None:
    table = MemoryAuditTable()
    busy = writer(table, FIRST)
    add(busy, FIRST, 0)

    def conflict(step: Step) -> None:
        if step is Step.COMMIT:
            raise TableConflict("somebody was faster")

    table.at_step = conflict
    with pytest.raises(TableConflict, match="somebody was faster"):
        busy.flush(NOW_MS)
    assert table.rows == []


@pytest.mark.parametrize("moment", ["assign", "flush"])
def test_another_cluster_is_refused(table: AuditTable, moment: str) -> None:
    ours, theirs = marked(table, 1), marked(table, 2)
    ours.assign([FIRST])
    add(ours, FIRST, 0)
    refused: Callable[[], object] = partial(theirs.assign, [FIRST])
    if moment == "flush":
        refused()
        add(theirs, FIRST, 0)
        refused = partial(theirs.flush, NOW_MS)
    ours.flush(NOW_MS)
    with pytest.raises(AnotherLog, match="audit#cluster: expected 1"):
        refused()


class ManyWriters(RuleBasedStateMachine):
    """Three writers on one table and one log: assigned, stopped, killed and woken in any order.

    The log's offsets have gaps. What is in the table is at all times the log's beginning, each
    record once, up to the version.
    """

    LOG = (0, 1, 2, 5, 6, 9, 10, 11, 40, 41, 42, 43, 50)

    @initialize()
    def begin(self) -> None:
        self.table = MemoryAuditTable()
        self.writers = [writer(self.table) for _ in range(3)]
        self.following: dict[int, int] = {}

    @rule(who=st.integers(0, 2))
    def assign(self, who: int) -> None:
        (written,) = self.writers[who].assign([FIRST]).values()
        self.following[who] = -1 if written is None else written

    @rule(who=st.integers(0, 2))
    def revoke(self, who: int) -> None:
        self.writers[who].revoke([FIRST])
        self.following.pop(who, None)
        assert (self.writers[who].buffered_rows, self.writers[who].buffered_bytes) == (0, 0)
        assert add(self.writers[who], FIRST, 99) == [False]

    @rule(who=st.integers(0, 2))
    def killed_and_started(self, who: int) -> None:
        self.writers[who] = writer(self.table)
        self.following.pop(who, None)

    @rule(who=st.integers(0, 2), count=st.integers(1, 4))
    def read(self, who: int, count: int) -> None:
        if who not in self.following:
            return
        for offset in [offset for offset in self.LOG if offset > self.following[who]][:count]:
            add(self.writers[who], FIRST, offset)
            self.following[who] = offset

    @rule(who=st.integers(0, 2))
    def flush(self, who: int) -> None:
        for written in self.writers[who].flush(NOW_MS).moved.values():
            self.following[who] = -1 if written is None else written

    @invariant()
    def the_table_holds_the_beginning_of_the_log_once(self) -> None:
        held = [row["offset"] for row in self.table.rows]
        assert held == list(self.LOG[: len(held)])
        version = self.table.open().version("audit-haltline.actions-0")
        assert version == (held[-1] if held else None)


TestManyWriters = ManyWriters.TestCase
TestManyWriters.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
