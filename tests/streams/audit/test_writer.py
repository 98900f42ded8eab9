"""Each record once, whatever happens between reading, writing and knowing that it was written."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from haltline.streams.audit.columns import Block, Row
from haltline.streams.audit.memory import MemoryAuditTable
from haltline.streams.audit.reading import Reader
from haltline.streams.audit.table import AuditTable, OpenTable, TableConflict
from haltline.streams.audit.writer import AnotherLog, AuditWriter, Place
from tests.streams.audit.records import NOW_MS, TOPICS, event, record

Positions = Callable[[AuditTable], list[tuple[str, int, int]]]

ACTIONS = Place(TOPICS.actions, 0)
CONTROL = Place(TOPICS.control, 1)
VALUE = event().to_json()


def writer(table: AuditTable, *, marks: Mapping[str, int] | None = None, adopt: bool = False) -> AuditWriter:
    made = AuditWriter(table, Reader(TOPICS, "audit"), "audit", adopt=adopt)
    for app_id, number in (marks or {}).items():
        made.mark(app_id, number)
    return made


def add(to: AuditWriter, place: Place, *offsets: int) -> list[bool]:
    return [to.add(record(place.topic, VALUE, offset, partition=place.partition)) for offset in offsets]


def at(place: Place, *offsets: int) -> list[tuple[str, int, int]]:
    return [(place.topic, place.partition, offset) for offset in offsets]


class Faulty:
    """A real table that fails at one moment, as a full disk or a lost answer does."""

    def __init__(self, table: AuditTable, moment: str) -> None:
        self._table = table
        self.moment = moment

    def open(self) -> OpenTable:
        return _FaultyOpen(self._table.open(), self.moment)


class _FaultyOpen:
    def __init__(self, opened: OpenTable, moment: str) -> None:
        self._opened = opened
        self._moment = moment

    def version(self, app_id: str) -> int | None:
        return self._opened.version(app_id)

    def chain_ends(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        return self._opened.chain_ends(sink, places)

    def last_signed(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return self._opened.last_signed(sink, places)

    def append(self, rows: Iterable[Row | Block], versions: Mapping[str, int]) -> None:
        if self._moment == "before":
            raise OSError("no space left on device")
        self._opened.append(rows, versions)
        if self._moment == "conflict reported after it was written":
            self._moment = ""
            raise TableConflict("the answer to the first try was lost, the second saw the first")
        if self._moment == "after":
            raise OSError("connection reset by peer")


def test_what_was_read_is_written_once_and_the_next_writer_goes_on_behind_it(
    table: AuditTable, positions: Positions
) -> None:
    first = writer(table)
    assert first.assign([ACTIONS, CONTROL]) == {ACTIONS: None, CONTROL: None}
    add(first, ACTIONS, 0, 1, 2)
    add(first, CONTROL, 5)
    flushed = first.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({ACTIONS: 2, CONTROL: 5}, {})
    assert flushed.rows == {TOPICS.actions: 3, TOPICS.control: 1}
    assert flushed.unreadable == {TOPICS.control: 1}
    assert writer(table).assign([ACTIONS, CONTROL]) == {ACTIONS: 2, CONTROL: 5}
    assert positions(table) == [*at(ACTIONS, 0, 1, 2), *at(CONTROL, 5)]


def test_a_flush_of_nothing_writes_nothing(table: AuditTable) -> None:
    idle = writer(table, marks={"audit#cluster": 7})
    idle.assign([ACTIONS])
    flushed = idle.flush(NOW_MS)
    assert (flushed.committed, flushed.moved, flushed.rows) == ({}, {}, {})
    assert table.open().version("audit#cluster") is None


def test_offsets_may_have_gaps(table: AuditTable, positions: Positions) -> None:
    compacted = writer(table)
    compacted.assign([CONTROL])
    add(compacted, CONTROL, 3, 17)
    compacted.flush(NOW_MS)
    add(compacted, CONTROL, 90)
    assert compacted.flush(NOW_MS).committed == {CONTROL: 90}
    assert positions(table) == at(CONTROL, 3, 17, 90)


def test_a_record_that_was_read_before_is_not_taken_again(table: AuditTable, positions: Positions) -> None:
    reader = writer(table)
    reader.assign([ACTIONS])
    assert add(reader, ACTIONS, 0, 1, 1, 0, 2) == [True, True, False, False, True]
    reader.flush(NOW_MS)
    assert add(reader, ACTIONS, 1, 2, 3) == [False, False, True]
    reader.flush(NOW_MS)
    assert positions(table) == at(ACTIONS, 0, 1, 2, 3)


def test_a_record_of_a_partition_that_is_not_held_is_not_taken(table: AuditTable) -> None:
    reader = writer(table)
    reader.assign([ACTIONS])
    reader.revoke([ACTIONS])
    assert add(reader, ACTIONS, 0) == [False]


def test_a_revoked_partition_leaves_nothing_behind(table: AuditTable, positions: Positions) -> None:
    reader = writer(table)
    reader.assign([ACTIONS, CONTROL])
    add(reader, ACTIONS, 0, 1)
    add(reader, CONTROL, 0)
    reader.revoke([ACTIONS])
    assert reader.flush(NOW_MS).committed == {CONTROL: 0}
    assert positions(table) == at(CONTROL, 0)
    assert (reader.buffered_rows, reader.buffered_bytes) == (0, 0)


def test_an_assignment_forgets_what_was_buffered_before(table: AuditTable, positions: Positions) -> None:
    reader = writer(table)
    reader.assign([ACTIONS])
    add(reader, ACTIONS, 0, 1)
    assert reader.assign([ACTIONS]) == {ACTIONS: None}
    add(reader, ACTIONS, 0)
    reader.flush(NOW_MS)
    assert positions(table) == at(ACTIONS, 0)


@pytest.mark.parametrize(
    ("moment", "there"),
    [pytest.param("before", (), id="before the commit"), pytest.param("after", (0, 1), id="after the commit")],
)
def test_a_writer_that_dies_around_the_commit_is_continued(
    table: AuditTable, positions: Positions, moment: str, there: tuple[int, ...]
) -> None:
    dying = writer(Faulty(table, moment))
    dying.assign([ACTIONS])
    add(dying, ACTIONS, 0, 1)
    with pytest.raises(OSError):  # noqa: PT011  # the fault that was made; its text is not what is tested
        dying.flush(NOW_MS)
    assert positions(table) == at(ACTIONS, *there)
    following = writer(table)
    (written,) = following.assign([ACTIONS]).values()
    add(following, ACTIONS, *range(0 if written is None else written + 1, 4))
    following.flush(NOW_MS)
    assert positions(table) == at(ACTIONS, 0, 1, 2, 3)


def test_a_commit_whose_answer_was_lost_is_seen_and_not_repeated(table: AuditTable, positions: Positions) -> None:
    unsure = writer(Faulty(table, "conflict reported after it was written"))
    unsure.assign([ACTIONS])
    add(unsure, ACTIONS, 0, 1)
    flushed = unsure.flush(NOW_MS)
    assert (flushed.committed, flushed.moved, flushed.dropped) == ({}, {ACTIONS: 1}, {TOPICS.actions: 2})
    add(unsure, ACTIONS, 2)
    unsure.flush(NOW_MS)
    assert positions(table) == at(ACTIONS, 0, 1, 2)


def test_a_zombie_writes_nothing_of_a_partition_that_another_took_over(table: AuditTable, positions: Positions) -> None:
    zombie, heir = writer(table), writer(table)
    zombie.assign([ACTIONS, CONTROL])
    add(zombie, ACTIONS, 0, 1, 2)
    add(zombie, CONTROL, 0)
    heir.assign([ACTIONS])
    add(heir, ACTIONS, 0, 1)
    heir.flush(NOW_MS)
    flushed = zombie.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({CONTROL: 0}, {ACTIONS: 1})
    assert flushed.dropped == {TOPICS.actions: 3}
    assert positions(table) == [*at(ACTIONS, 0, 1), *at(CONTROL, 0)]


def test_an_heir_goes_on_behind_what_the_zombie_still_wrote(table: AuditTable, positions: Positions) -> None:
    zombie, heir = writer(table), writer(table)
    zombie.assign([ACTIONS])
    add(zombie, ACTIONS, 0, 1, 2)
    heir.assign([ACTIONS])
    add(heir, ACTIONS, 0, 1, 2, 3)
    zombie.flush(NOW_MS)
    flushed = heir.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({}, {ACTIONS: 2})
    add(heir, ACTIONS, 3)
    heir.flush(NOW_MS)
    assert positions(table) == at(ACTIONS, 0, 1, 2, 3)


def test_a_zombie_that_wakes_between_looking_and_writing_is_refused(table: AuditTable, positions: Positions) -> None:
    heir = writer(table)

    class WakesLate:
        """Opens, and is overtaken before it appends."""

        def open(self) -> OpenTable:
            opened = table.open()
            if heir.assign([ACTIONS]) == {ACTIONS: None} and woken:
                add(heir, ACTIONS, 0, 1)
                heir.flush(NOW_MS)
            return opened

    woken: list[bool] = []
    zombie = writer(WakesLate())
    zombie.assign([ACTIONS])
    add(zombie, ACTIONS, 0, 1, 2)
    woken.append(True)
    flushed = zombie.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({}, {ACTIONS: 1})
    assert positions(table) == at(ACTIONS, 0, 1)


def test_a_table_that_was_set_back_is_filled_again(table: AuditTable) -> None:
    reader = writer(table)
    reader.assign([ACTIONS])
    add(reader, ACTIONS, 0, 1, 2, 3)
    reader.flush(NOW_MS)
    table.open().append([], {"audit-haltline.actions-0": 1})
    add(reader, ACTIONS, 4)
    assert reader.flush(NOW_MS).moved == {ACTIONS: 1}


def test_a_partition_with_nothing_to_write_is_moved_too(table: AuditTable) -> None:
    idle, busy = writer(table), writer(table)
    idle.assign([ACTIONS])
    busy.assign([ACTIONS])
    add(busy, ACTIONS, 0)
    busy.flush(NOW_MS)
    assert idle.flush(NOW_MS).moved == {ACTIONS: 0}


def test_lost_offsets_are_a_row_of_their_own(table: AuditTable, positions: Positions) -> None:
    late = writer(table)
    late.assign([ACTIONS])
    add(late, ACTIONS, 0)
    late.flush(NOW_MS)
    late.lost(ACTIONS, 1, 8)
    assert late.flush(NOW_MS).committed == {ACTIONS: 8}
    add(late, ACTIONS, 9)
    late.flush(NOW_MS)
    assert positions(table) == at(ACTIONS, 0, 1, 9)
    if isinstance(table, MemoryAuditTable):
        assert table.rows[1]["summary"] == (
            "lost: haltline.actions[0] offsets 1 to 8 were deleted by the broker before they were read"
        )


@pytest.mark.parametrize("moment", ["assign", "flush"])
def test_another_cluster_is_refused(table: AuditTable, moment: str) -> None:
    ours = writer(table, marks={"audit#cluster": 1})
    ours.assign([ACTIONS])
    add(ours, ACTIONS, 0)
    theirs = writer(table, marks={"audit#cluster": 2})
    if moment == "flush":
        theirs.assign([ACTIONS])
        add(theirs, ACTIONS, 0)
    ours.flush(NOW_MS)
    refused: Callable[[], object] = partial(theirs.assign, [ACTIONS])
    if moment == "flush":
        refused = partial(theirs.flush, NOW_MS)
    with pytest.raises(AnotherLog, match="audit#cluster: expected 1"):
        refused()


def test_another_cluster_is_adopted_when_asked_for(table: AuditTable, positions: Positions) -> None:
    ours = writer(table, marks={"audit#cluster": 1})
    ours.assign([ACTIONS])
    add(ours, ACTIONS, 0)
    ours.flush(NOW_MS)
    moved = writer(table, marks={"audit#cluster": 2}, adopt=True)
    assert moved.assign([ACTIONS]) == {ACTIONS: 0}
    add(moved, ACTIONS, 1)
    moved.flush(NOW_MS)
    assert table.open().version("audit#cluster") == 2
    assert positions(table) == at(ACTIONS, 0, 1)


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
        (written,) = self.writers[who].assign([ACTIONS]).values()
        self.following[who] = -1 if written is None else written

    @rule(who=st.integers(0, 2))
    def revoke(self, who: int) -> None:
        self.writers[who].revoke([ACTIONS])
        self.following.pop(who, None)

    @rule(who=st.integers(0, 2))
    def killed_and_started(self, who: int) -> None:
        self.writers[who] = writer(self.table)
        self.following.pop(who, None)

    @rule(who=st.integers(0, 2), count=st.integers(1, 4))
    def read(self, who: int, count: int) -> None:
        if who not in self.following:
            return
        for offset in [offset for offset in self.LOG if offset > self.following[who]][:count]:
            add(self.writers[who], ACTIONS, offset)
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
TestManyWriters.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
