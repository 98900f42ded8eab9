"""What a reader of the changelog takes, and what of a replaced owner's late records it does not."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.runtime.changelog import (
    EPOCH_HEADER,
    NOBODY,
    TOPIC_IDS_HEADER,
    Epoch,
    ForeignWrite,
    PartitionState,
)


@dataclass(frozen=True)
class Record:
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str = "changelog"
    partition: int = 0
    timestamp: int = 0


def written(offset: int, key: bytes | None, value: bytes | None, *, era: int | None, since_ms: int = 0) -> Record:
    headers = () if era is None else ((EPOCH_HEADER, Epoch(era, since_ms).encode()),)
    return Record(offset, key, value, headers)


def read(*records: Record) -> PartitionState:
    part = PartitionState(0)
    part.apply(records)
    return part


def test_the_last_value_of_a_key_counts_and_none_drops_it() -> None:
    part = read(
        written(0, b"a", b"1", era=1),
        written(1, b"b", b"1", era=1),
        written(4, b"a", b"2", era=1),
        written(5, b"b", None, era=1),
    )

    assert part.values == {b"a": b"2"}
    assert part.offset == 5


def test_records_that_were_read_are_passed_over_when_they_come_again() -> None:
    part = read(written(0, b"a", b"1", era=1), written(1, b"a", b"2", era=1))
    part.apply([written(0, b"a", b"1", era=1), written(1, b"a", b"2", era=1), written(2, b"b", b"3", era=1)])

    assert part.values == {b"a": b"2", b"b": b"3"}


def test_a_state_is_of_the_logs_that_its_writer_knew_until_it_is_written_again() -> None:
    def state(offset: int, key: bytes, logs: bytes | None) -> Record:
        return Record(offset, key, b"1", () if logs is None else ((TOPIC_IDS_HEADER, logs),))

    part = PartitionState(0, b"now")
    part.apply([state(0, b"a", b"before"), state(1, b"b", b"now"), state(2, b"c", None), state(3, b"d", b"before")])
    assert part.other_logs == {b"a": b"before", b"c": b"", b"d": b"before"}
    part.apply([state(4, b"a", b"now"), Record(5, b"d", None, ((TOPIC_IDS_HEADER, b"now"),))])
    assert part.other_logs == {b"c": b""}
    part.put(b"c", b"2", written_ms=1)
    assert part.other_logs == {}


def test_where_the_logs_are_not_known_every_state_that_was_read_may_be_of_others() -> None:
    part = read(Record(0, b"a", b"1"))
    assert part.other_logs == {b"a": b""}


def test_a_late_record_says_nothing_of_the_logs() -> None:
    part = PartitionState(0, b"now")
    part.apply(
        [
            Record(0, b"a", b"1", ((EPOCH_HEADER, Epoch(2, 0).encode()), (TOPIC_IDS_HEADER, b"now"))),
            Record(1, b"a", b"0", ((EPOCH_HEADER, Epoch(1, 0).encode()), (TOPIC_IDS_HEADER, b"before"))),
        ]
    )
    assert (part.values, part.other_logs, part.fenced_keys) == ({b"a": b"1"}, {}, {b"a"})


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(((EPOCH_HEADER, b"short"),), id="an epoch of another length"),
        pytest.param(((EPOCH_HEADER, None),), id="an epoch without a value"),
        pytest.param(((EPOCH_HEADER, b"\x7f" + 15 * b"\xff"),), id="an epoch that no owner could follow"),
        pytest.param(((TOPIC_IDS_HEADER, None),), id="logs without a value"),
        pytest.param(((TOPIC_IDS_HEADER, b"\xff"),), id="logs of another length"),
        pytest.param((("\x00", b"x"), ("", b"")), id="names of nobody"),
    ],
)
def test_a_state_with_a_broken_header_is_read_and_believed(headers: tuple[tuple[str, bytes]]) -> None:
    part = PartitionState(0, b"now")
    part.apply([Record(0, b"a", b"1", headers)])
    assert (part.values, part.epoch) == ({b"a": b"1"}, NOBODY)


def test_states_are_given_out_as_idle_once_the_longest_unwritten_first() -> None:
    part = read(
        *(Record(offset, key, b"1", timestamp=1000 + offset) for offset, key in enumerate((b"a", b"b", b"c", b"d"))),
        Record(4, b"a", b"2", timestamp=1004),
        Record(5, b"c", None, timestamp=1005),
    )

    assert part.take_idle(before_ms=1001, limit=10) == []
    assert part.take_idle(before_ms=1005, limit=2) == [b"b", b"d"]
    assert part.take_idle(before_ms=1005, limit=2) == [b"a"]
    assert part.take_idle(before_ms=9999, limit=2) == []
    part.put(b"b", b"2", written_ms=1006)
    assert part.take_idle(before_ms=9999, limit=2) == [b"b"]
    assert part.values == {b"a": b"2", b"b": b"2", b"d": b"1"}, "what becomes of them is another's to say"


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(written(2, b"a", b"late", era=1), id="an earlier era"),
        pytest.param(written(2, b"a", None, era=1), id="an earlier era that drops the key"),
        pytest.param(written(2, b"a", b"late", era=2, since_ms=9), id="the same era, taken earlier by a static member"),
    ],
)
def test_a_record_of_a_replaced_owner_was_never_written(late: Record) -> None:
    part = read(
        written(0, b"a", b"1", era=1), written(1, b"a", b"2", era=2, since_ms=10), late, written(3, b"c", b"3", era=5)
    )

    assert part.values == {b"a": b"2", b"c": b"3"}
    assert part.fenced_keys == {b"a"}


def test_a_key_that_was_written_anew_is_late_no_more() -> None:
    part = read(
        written(0, b"a", b"2", era=2),
        written(1, b"a", b"late", era=1),
        written(2, b"a", b"2", era=3),
    )

    assert part.fenced_keys == set()
    assert part.values == {b"a": b"2"}


def test_a_record_without_an_epoch_is_an_operator_s_and_counts() -> None:
    part = read(written(0, b"a", b"broken", era=7), written(1, b"a", None, era=None))

    assert part.values == {}
    assert part.fenced_keys == set()
    assert part.epoch == Epoch(7, 0)


def test_a_record_without_a_key_is_counted_and_passed_over() -> None:
    part = read(written(0, None, b"?", era=1), written(1, b"a", b"1", era=1))

    assert part.skipped == 1
    assert part.values == {b"a": b"1"}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="no header"),
        pytest.param(((EPOCH_HEADER, b"short"),), id="a header of another length"),
        pytest.param((("other", Epoch(3, 4).encode()),), id="another header"),
    ],
)
def test_what_is_no_epoch_is_none(headers: Sequence[tuple[str, bytes]]) -> None:
    assert Epoch.of(Record(0, b"a", b"1", headers)) is None


@given(st.integers(min_value=0, max_value=2**62), st.integers(min_value=0, max_value=2**62))
def test_an_epoch_survives_its_header(era: int, since_ms: int) -> None:
    epoch = Epoch(era, since_ms)

    assert Epoch.of(Record(0, b"a", b"1", ((EPOCH_HEADER, epoch.encode()),))) == epoch


def test_an_owner_s_epoch_is_above_all_that_it_read_also_when_the_group_began_anew() -> None:
    part = read(written(0, b"a", b"1", era=57))
    part.claim(generation=1, now_ms=5, last_offset=0)

    assert part.epoch == Epoch(58, 5)
    assert part.epoch > Epoch(57, 99) > NOBODY


def test_what_compaction_took_from_the_end_does_not_look_like_another_writer() -> None:
    part = read(written(3, b"a", b"1", era=1))
    part.claim(generation=1, now_ms=5, last_offset=9)
    part.record_sent()
    part.record_confirmed(10)

    assert part.offset == 10


def owner() -> PartitionState:
    part = read(written(0, b"a", b"1", era=1))
    part.claim(generation=2, now_ms=5, last_offset=0)
    return part


def test_own_records_land_one_after_the_other() -> None:
    part = owner()
    for offset in (1, 2, -1, 4):  # the broker does not tell the third one's, for it came twice
        part.record_sent()
        part.record_confirmed(offset)

    assert part.offset == 4
    assert part.in_flight == 0


@pytest.mark.parametrize("offset", [pytest.param(0, id="behind"), pytest.param(2, id="ahead")])
def test_a_record_that_lands_elsewhere_tells_of_another_writer(offset: int) -> None:
    part = owner()
    part.record_sent()

    with pytest.raises(ForeignWrite, match=rf"partition 0: expected our record at offset 1, got {offset}"):
        part.record_confirmed(offset)


def test_an_end_that_our_own_records_reach_is_no_other_writer_s() -> None:
    part = owner()
    part.check_end_offset(1)
    part.record_sent()
    part.record_sent()
    part.check_end_offset(3)
    part.check_end_offset(0)  # asked for long ago

    with pytest.raises(ForeignWrite, match="expected its end at offset 3 or before, got 4"):
        part.check_end_offset(4)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Record], dict[bytes, bytes]]:
    """A log of several owners in order, with late records of replaced ones, and the states without those."""
    keys = st.sampled_from([b"a", b"b", b"c"])
    values = st.one_of(st.none(), st.binary(min_size=1, max_size=2))
    log: list[tuple[int, bytes, bytes | None]] = []
    states: dict[bytes, bytes] = {}
    for era in range(1, draw(st.integers(2, 5))):
        for key, value in draw(st.lists(st.tuples(keys, values), min_size=1, max_size=4)):
            log.append((era, key, value))
            if value is None:
                states.pop(key, None)
            else:
                states[key] = value
            if era > 1:
                late = draw(st.lists(st.tuples(st.integers(1, era - 1), keys, values), max_size=2))
                log.extend(late)
    return [written(offset, key, value, era=era) for offset, (era, key, value) in enumerate(log)], states


@given(histories(), st.integers(min_value=1, max_value=4))
def test_late_records_change_nothing_wherever_they_stand_and_however_the_log_is_cut(
    history: tuple[list[Record], dict[bytes, bytes]], size: int
) -> None:
    log, states = history
    part = PartitionState(0)
    for start in range(0, len(log), size):
        part.apply(log[start : start + size])

    assert part.values == states


@given(histories())
def test_once_the_late_keys_are_written_anew_the_log_compacts_to_the_states(
    history: tuple[list[Record], dict[bytes, bytes]],
) -> None:
    log, states = history
    part = read(*log)
    part.claim(generation=1, now_ms=0, last_offset=log[-1].offset)
    healed = [
        written(len(log) + place, key, part.values.get(key), era=part.epoch.era)
        for place, key in enumerate(sorted(part.fenced_keys))
    ]
    compacted = {record.key: record for record in [*log, *healed]}

    assert {r.key: r.value for r in compacted.values() if r.value is not None} == states
    assert read(*sorted(compacted.values(), key=lambda r: r.offset)).values == states
