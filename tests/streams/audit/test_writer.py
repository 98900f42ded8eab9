"""Each record once, whatever happens between reading, writing and knowing that it was written."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from haltline.streams.audit.memory import MemoryAuditTable, Step
from haltline.streams.audit.table import AuditTable, OpenTable, TableConflict
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


def test_a_commit_whose_retry_meets_its_own_first_try_is_seen_and_not_repeated(positions: Positions) -> None:
    table = MemoryAuditTable()
    unsure = writer(table, FIRST)
    add(unsure, FIRST, 0, 1)

    def lose_one_answer(step: Step) -> None:
        if step is Step.ANSWER:
            table.at_step = lambda _: None
            raise TableConflict("the answer to the first try was lost, the second saw the first")

    table.at_step = lose_one_answer
    flushed = unsure.flush(NOW_MS)
    assert (flushed.committed, flushed.moved, flushed.dropped) == ({}, {FIRST: 1}, {TOPICS.actions: 2})
    add(unsure, FIRST, 2)
    unsure.flush(NOW_MS)
    assert positions(table) == at(FIRST, 0, 1, 2)


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


def test_a_zombie_writes_nothing_of_a_partition_that_another_took_over(table: AuditTable, positions: Positions) -> None:
    zombie, heir = writer(table, FIRST, CONTROL), writer(table, FIRST)
    add(zombie, FIRST, 0, 1, 2)
    add(zombie, CONTROL, 0)
    add(heir, FIRST, 0, 1)
    heir.flush(NOW_MS)
    flushed = zombie.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({CONTROL: 0}, {FIRST: 1})
    assert flushed.dropped == {TOPICS.actions: 3}
    assert positions(table) == [*at(FIRST, 0, 1), *at(CONTROL, 0)]
    assert zombie.flush(NOW_MS).moved == {}
    add(heir, FIRST, 2)
    heir.flush(NOW_MS)
    assert zombie.flush(NOW_MS).moved == {FIRST: 2}  # though it has nothing to write


def test_a_zombie_that_wakes_between_looking_and_writing_is_refused(table: AuditTable, positions: Positions) -> None:
    class WakesLate:
        """Opens, and is overtaken before it appends."""

        def open(self) -> OpenTable:
            opened = table.open()
            if woken:
                woken.clear()
                heir = writer(table, FIRST)
                add(heir, FIRST, 0, 1)
                heir.flush(NOW_MS)
            return opened

    woken: list[bool] = []
    zombie = writer(WakesLate(), FIRST)
    add(zombie, FIRST, 0, 1, 2)
    woken.append(True)
    flushed = zombie.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({}, {FIRST: 1})
    assert positions(table) == at(FIRST, 0, 1)


def test_a_table_that_was_set_back_is_filled_again(table: AuditTable) -> None:
    reader = writer(table, FIRST)
    add(reader, FIRST, 0, 1, 2, 3)
    reader.flush(NOW_MS)
    table.open().append([], {"audit-haltline.actions-0": 1})
    add(reader, FIRST, 4)
    assert reader.flush(NOW_MS).moved == {FIRST: 1}


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


def test_another_cluster_is_adopted_when_asked_for_but_not_while_partitions_are_held(
    table: AuditTable, positions: Positions
) -> None:
    ours = marked(table, 1)
    ours.assign([FIRST])
    with pytest.raises(AnotherLog, match="audit#cluster: expected 1"):
        ours.mark("audit#cluster", 3)
    add(ours, FIRST, 0)
    ours.flush(NOW_MS)
    moved = marked(table, 2, adopt=True)
    assert moved.assign([FIRST]) == {FIRST: 0}
    add(moved, FIRST, 1)
    moved.flush(NOW_MS)
    assert table.open().version("audit#cluster") == 2
    assert positions(table) == at(FIRST, 0, 1)


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
