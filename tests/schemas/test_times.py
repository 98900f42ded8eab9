from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.record import EARLIEST_MS, LATEST_MS, rfc3339
from haltline.schemas.wire import InvalidRecord, decode_event

NOON_MS = 1_750_075_200_000  # 2025-06-16T12:00:00Z


def read_time(value: object) -> int:
    event = {"event_id": "e", "kind": "session.heartbeat", "session_id": "s", "time": value}
    return decode_event(orjson.dumps(event)).time


@pytest.mark.parametrize(
    ("value", "time_ms"),
    [
        pytest.param(NOON_MS, NOON_MS, id="epoch milliseconds"),
        pytest.param("2025-06-16T12:00:00Z", NOON_MS, id="UTC as Z"),
        pytest.param("2025-06-16T06:30:00-05:30", NOON_MS, id="west by half an hour"),
        pytest.param("2025-06-16T12:00:00.250Z", NOON_MS + 250, id="milliseconds"),
        pytest.param("2025-06-16T12:00:00.250999Z", NOON_MS + 251, id="microseconds are rounded"),
        pytest.param("2025-06-16T12:00:00.123456789Z", NOON_MS + 123, id="nanoseconds"),
        pytest.param("2000-01-01T00:00:00Z", EARLIEST_MS, id="the earliest"),
        pytest.param("2099-12-31T23:59:59.999Z", LATEST_MS - 1, id="the latest"),
    ],
)
def test_a_time_is_read(value: object, time_ms: int) -> None:
    assert read_time(value) == time_ms


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("9999-12-31T23:59:59-23:59", "2000 to 2100", id="the year 9999 and beyond it in UTC"),
        pytest.param(LATEST_MS, "2000 to 2100", id="the first moment of 2100"),
        pytest.param(1_750_075_200, "2000 to 2100", id="seconds for milliseconds"),
        pytest.param("2025-06-16T12:00:00", "with an offset", id="no offset"),
        pytest.param("yesterday", "yesterday", id="no time at all"),
        pytest.param(str(NOON_MS), str(NOON_MS), id="milliseconds as text"),
        pytest.param("2025-02-30T12:00:00Z", "expected an RFC 3339 time", id="the 30th of February"),
        pytest.param(True, "got True", id="a boolean"),
        pytest.param(1_750_075_200_000.0, "whole epoch milliseconds", id="a float"),
    ],
)
def test_a_time_is_refused_and_the_message_says_what_came(value: object, text: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        read_time(value)
    assert caught.value.reason is BadRecord.INVALID
    assert caught.value.detail.startswith("time: ")
    assert text in caught.value.detail


@given(time_ms=st.integers(EARLIEST_MS, LATEST_MS - 1), offset_minutes=st.integers(-23 * 60, 23 * 60))
def test_a_moment_is_the_same_in_every_offset_and_as_people_read_it(time_ms: int, offset_minutes: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    there = moment.astimezone(timezone(timedelta(minutes=offset_minutes)))
    assert read_time(there.isoformat(timespec="milliseconds")) == time_ms
    assert rfc3339(time_ms).endswith("Z")
    assert read_time(rfc3339(time_ms)) == time_ms
