"""Numbers and times as people write them, in the browser that writes them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser.conftest import console_of, signed_in

NOW_MS = "Date.parse('2026-11-23T14:05:00')"  # in the reader's zone
S, MIN, H, D = 1, 60, 3600, 86_400


@pytest.fixture(scope="module")
def page(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with (
        console_of(tmp_path_factory.mktemp("saying")) as (_, address),
        signed_in(chromium, address, timezone_id="America/New_York") as page,
    ):
        yield page


def say(page: Page, expression: str) -> str:
    text = page.evaluate(f"async () => {{ const say = await import('/static/say.js'); return say.{expression}; }}")
    return str(text).replace("\u00a0", " ")


NUMBERS = {
    "count(0)": "0",
    "count(9999)": "9,999",
    "count(12345)": "12.3 k",
    "count(1200000)": "1.2 M",
    "count(3.4e9)": "3.4 B",
    "exact(1234567)": "1,234,567",
    "plural(1, 'event')": "1 event",
    "plural(2500000, 'event')": "2.5 M events",
    "usd(0)": "$0",
    "usd(0.004)": "$0.004",
    "usd(0.00001)": "<$0.0001",
    "usd(12.85)": "$12.85",
    "usd(999.999)": "$1 k",
    "usd(1200)": "$1.2 k",
    "usdPerMinute(12.85)": "$12.85/min",
    "prevented(0)": "no prices configured",
    "prevented(4.5)": "$4.50",
    "span(420)": "420 ms",
    "span(999.7)": "1 s",
    "span(3200)": "3.2 s",
    "span(65000)": "1 min 5 s",
    "span(720000)": "12 min",
    "span(3900000)": "1 h 5 min",
    "span(97200000)": "1 d 3 h",
    "prose('loop_detected, 3 deletes on x')": "Loop detected: 3 deletes on x",
    "prose('the owner, who knows')": "the owner, who knows",
    "relative('2026-11-20T00:00:00Z', Date.parse('2026-11-20T00:00:03Z'))": "just now",
}
AGO_S = {
    0: "just now",
    42 * S: "42 s ago",
    2 * MIN + 50: "2 min ago",
    5 * H + 59 * MIN: "5 h ago",
    13 * H: "today 01:05",
    26 * H: "yesterday 12:05",
    3 * D: "Fri 14:05",
    20 * D: "Nov 3 14:05",
    400 * D: "Oct 19, 2025",
    -5 * MIN: "in 5 min",
    -26 * H: "tomorrow 16:05",
}


def test_numbers_durations_and_times_are_written_as_people_do(page: Page) -> None:
    assert {expression: say(page, expression) for expression in NUMBERS} == NUMBERS
    assert {ago: say(page, f"relative({NOW_MS} - {ago * 1000}, {NOW_MS})") for ago in AGO_S} == AGO_S


def test_a_time_is_exact_when_pointed_at_and_goes_on_being_right(page: Page) -> None:
    html = say(page, "ago('2026-01-01T12:00:12.000Z').outerHTML")
    assert 'datetime="2026-01-01T12:00:12.000Z"' in html
    assert 'title="Jan 1, 2026, 07:00:12 EST (2026-01-01T12:00:12.000Z)"' in html
