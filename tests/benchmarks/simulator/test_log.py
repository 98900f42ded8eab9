"""Partitions as logs."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulator.log import Log, Record


def _log(keys: str, *, tombstones: str = "") -> Log:
    log = Log()
    for number, key in enumerate(keys):
        value = None if key in tombstones else b"%d" % number
        log.append(Record(number, key.encode(), value, (), 1, number))
    log.raise_high()
    log.roll()
    return log


@given(st.text("abcd", max_size=30), st.integers(0, 30))
def test_compaction_keeps_the_last_record_of_each_key_before_the_segment_being_written(keys: str, segment: int) -> None:
    log = _log(keys)
    log.segment = min(segment, len(keys))
    log.compact(before_ms=1_000, tombstones_before_ms=0)
    closed, active = keys[: log.segment], keys[log.segment :]
    kept = [r.offset for r in log.records]
    assert kept == sorted(closed.rindex(k) for k in set(closed)) + [log.segment + n for n in range(len(active))]
    assert log.end == len(keys)


@given(st.text("abcd", max_size=30), st.integers(0, 30))
def test_a_full_partition_loses_no_value_that_has_no_later_one(keys: str, segment: int) -> None:
    log = _log(keys)
    log.segment = min(segment, len(keys))
    log.drop_replaced(before_ms=1_000)
    closed = keys[: log.segment]
    start = min((closed.rindex(key) for key in set(closed)), default=0)
    assert [r.offset for r in log.records] == list(range(start, len(keys)))
    assert log.start == start


def test_compaction_leaves_young_records_and_tombstones_and_a_record_that_is_sent_again_is_not_appended() -> None:
    log = _log("aabbc", tombstones="b")
    assert log.compact(before_ms=3, tombstones_before_ms=0) == 1
    assert [r.offset for r in log.records] == [1, 2, 3, 4]
    assert log.compact(before_ms=9, tombstones_before_ms=0) == 1
    assert [r.offset for r in log.records] == [1, 3, 4]
    assert log.compact(before_ms=9, tombstones_before_ms=4) == 1
    assert [r.offset for r in log.records] == [1, 4]
    log = _log("ab")
    assert log.append(Record(5, b"b", b"1", (), 1, 1)) is None
    assert log.append(Record(5, b"b", b"1", (), 2, 0)) == 2
