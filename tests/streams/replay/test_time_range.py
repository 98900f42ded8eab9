import pytest

from haltline.streams.replay.time_range import OPEN, BadMoment, Moment, parse_moment, parse_range

NOW_MS = 1_750_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", OPEN, id="nothing is open"),
        pytest.param("-90m", Moment(NOW_MS - 5_400_000), id="how long ago"),
        pytest.param("-1d2h", Moment(NOW_MS - 93_600_000), id="in several units"),
        pytest.param("2025-06-15T15:06:40Z", Moment(NOW_MS), id="in UTC"),
        pytest.param("2025-06-15T17:06:40+02:00", Moment(NOW_MS), id="in another zone"),
        pytest.param("2025-06-15T15:06:40", Moment(NOW_MS), id="no zone is UTC"),
        pytest.param("0:12,3:7", Moment(offsets={0: 12, 3: 7}), id="offsets of two partitions"),
    ],
)
def test_a_moment_is_a_time_or_offsets(text: str, expected: Moment) -> None:
    assert parse_moment(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["soon", "-", "12", "0:1,", "-90", "0:-1"])
def test_what_is_neither_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(BadMoment, match="expected a time"):
        parse_moment(text, NOW_MS)


def test_a_range_may_be_open_at_either_end_and_one_that_ends_before_it_begins_is_refused() -> None:
    assert parse_range("", "-1s", 5_000) == (Moment(), Moment(4_000))
    assert parse_range("0:9", "1:5", 0) == (Moment(offsets={0: 9}), Moment(offsets={1: 5}))
    for since, until in (("-10m", "-10m"), ("-1m", "-10m"), ("0:9,1:5", "1:5")):
        with pytest.raises(BadMoment, match=f"--from {since}: expected a moment before --to, got --to {until}"):
            parse_range(since, until, 0)
