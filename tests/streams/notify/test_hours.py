from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import strategies as st

from haltline.streams.notify.hours import DAYS, Hours, over_at

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
NIGHT = Hours.model_validate({"from": "22:00", "to": "07:00", "time_zone": "Europe/Berlin"})
WEEKEND = Hours.model_validate({"days": ["sat", "sun"], "time_zone": "Europe/Berlin"})
FRIDAY_NIGHT = Hours.model_validate({"days": ["fri"], "from": "18:00", "to": "00:00", "time_zone": "Europe/Berlin"})


def ms(text: str, zone: str = "Europe/Berlin", fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


@pytest.mark.parametrize(
    ("hours", "at", "over"),
    [
        pytest.param([NIGHT], "2026-03-10T12:00", "2026-03-10T12:00", id="by day it is over at once"),
        pytest.param([NIGHT], "2026-03-10T22:00", "2026-03-11T07:00", id="the first minute is within"),
        pytest.param([NIGHT], "2026-03-11T06:59:59", "2026-03-11T07:00", id="and the last after midnight"),
        pytest.param([NIGHT], "2026-03-11T07:00", "2026-03-11T07:00", id="the end is not"),
        pytest.param([WEEKEND], "2026-03-14T09:00", "2026-03-16T00:00", id="two whole days end on Monday"),
        pytest.param([WEEKEND, FRIDAY_NIGHT], "2026-03-13T18:00", "2026-03-16T00:00", id="hours that meet are one"),
        pytest.param([WEEKEND, NIGHT], "2026-03-15T12:00", "2026-03-16T07:00", id="hours that overlap are one"),
        pytest.param([NIGHT], "2026-03-29T01:30", "2026-03-29T07:00", id="a night in which an hour is missing"),
        pytest.param([NIGHT], "2026-10-25T01:30", "2026-10-25T07:00", id="a night that has one more"),
    ],
)
def test_when_hours_are_over(hours: list[Hours], at: str, over: str) -> None:
    assert over_at(hours, ms(at)) == ms(over)


def test_an_end_that_comes_twice_is_the_next_one_and_hours_that_never_end_are_refused() -> None:
    hours = Hours.model_validate({"from": "00:00", "to": "02:30", "time_zone": "Europe/Berlin"})
    assert over_at([hours], ms("2026-10-25T02:10", fold=1)) == ms("2026-10-25T02:30", fold=1)
    with pytest.raises(ValueError, match="expected hours that end"):
        over_at([Hours()], 0)


minutes = st.integers(0, 24 * 60 - 1).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
hours = st.builds(
    lambda days, begin, end, zone: Hours.model_validate(
        {"days": sorted(days), "from": begin, "to": end, "time_zone": zone}
    ),
    st.sets(st.sampled_from(DAYS), min_size=1, max_size=3),
    minutes,
    minutes,
    st.sampled_from(ZONES),
)
