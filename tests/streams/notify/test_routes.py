from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.notify.config import Config
from haltline.streams.notify.delivery_queue import DeliveryQueue, Item
from haltline.streams.notify.hours import Hours, over_at
from haltline.streams.notify.routes import FOLLOWED, Planned, plan
from tests.builders import T0_MS, cases
from tests.streams.notify.records import change

CHANNELS = {
    "chat": {"kind": "slack", "url_file": "u"},
    "mail": {"kind": "email", "host": "h", "from": "a@b.c", "to": ["d@e.f"]},
    "pager": {"kind": "pagerduty", "routing_key_file": "k"},
}
NIGHT = {"from": "22:00", "to": "07:00"}
DAY_MS = 86_400_000


def config(*routes: dict[str, Any]) -> Config:
    named = [{"name": f"r{number}", "channels": ["chat"], **route} for number, route in enumerate(routes)]
    return Config.model_validate({"channels": CHANNELS, "routes": named})


def at(text: str) -> int:
    return round(datetime.fromisoformat(f"2026-03-10T{text}+00:00").timestamp() * 1000)


def planned(record: IncidentRecord, at_ms: int, *routes: dict[str, Any]) -> list[str]:
    """`channel route +seconds`, with * where it is of a digest."""
    return [
        f"{one.channel} {one.route} +{(one.due_ms - at_ms) // 1000}{'*' if one.digest else ''}"
        for one in plan(record, at_ms, config(*routes))
    ]


NUDGE = {"level": "NUDGE", "severity": "low", "causes": ["repetition"]}


def escalated(**fields: Any) -> IncidentRecord:
    return change("escalated", 2, **{"before": NUDGE, **fields})


@cases(
    "match, record, reported",
    {
        "a route without a condition takes all": ({}, change(), True),
        "the level itself": ({"level": "PAUSE"}, change(level="PAUSE"), True),
        "a severity above": ({"severity": "high"}, change(severity="critical"), True),
        "an agent by one of two patterns": ({"agent": ["prod-*", "clean?r"]}, change(), True),
        "letters are told apart by case": ({"agent": "Cleaner"}, change(), False),
        "a mission by its pattern": ({"mission": "night-*"}, change(mission_id="night-7"), True),
        "all conditions must hold": ({"level": "PAUSE", "cause": "x"}, change(), False),
        "another time of day": ({"during": [NIGHT]}, change(), False),
        "its time of day": ({"during": [{"from": "11:00", "to": "13:00"}]}, change(), True),
        "what an escalation has become only now": ({"level": "PAUSE"}, escalated(), True),
        "not again what it was already": ({"level": "NUDGE"}, escalated(), False),
        "another cause": (
            {"cause": "destr*"},
            escalated(before={**NUDGE, "level": "PAUSE"}, causes=["repetition", "destruction"]),
            True,
        ),
        "a person is asked": ({}, escalated(request_id="apr_5d0c", approval="pending"), True),
    },
)
def test_which_incidents_a_route_takes(match: dict[str, Any], record: IncidentRecord, reported: bool) -> None:
    assert planned(record, at("12:00"), {"match": match}) == (["chat r0 +0"] if reported else [])


@cases(
    "what, reported",
    {
        "opened": ("opened", True),
        "escalated, by a release that does not say from what": ("escalated", True),
        "an approval is wanted": ("approval_wanted", True),
        "an approval was answered: not unless asked for": ("approval_closed", False),
        "acknowledged": ("acknowledged", True),
        "resolved": ("resolved", True),
        "one more decision: not unless asked for": ("counted", False),
        "commented: not unless asked for": ("commented", False),
        "assigned: not unless asked for": ("assigned", False),
    },
)
def test_which_changes_are_notified_without_asking(what: str, reported: bool) -> None:
    assert bool(planned(change(what), at("12:00"), {})) is reported
    assert planned(change(what), at("12:00"), {"changes": [what]}) == ["chat r0 +0"]


@cases(
    "routes, actual",
    {
        "the first that matches": ([{}, {"channels": ["mail"]}], ["chat r0 +0"]),
        "and on": ([{"continue": True}, {"channels": ["mail"]}], ["chat r0 +0", "mail r1 +0"]),
        "a channel once, by the first route": ([{"continue": True}, {}], ["chat r0 +0"]),
        "a route without channels ends it": ([{"channels": []}, {}], []),
        "the next, if not": ([{"match": {"level": "KILL"}}, {"channels": ["mail"]}], ["mail r1 +0"]),
    },
)
def test_the_order_of_routes(routes: list[dict[str, Any]], actual: list[str]) -> None:
    assert planned(change(), at("12:00"), *routes) == actual


@cases(
    "route, record, moment, actual",
    {
        "held back until the morning": ({"quiet": [NIGHT]}, change(), "23:00", "chat r0 +28800*"),
        "a kill is told at once": ({"quiet": [NIGHT]}, change(level="KILL"), "23:00", "chat r0 +0"),
        "unless nothing is": ({"quiet": [NIGHT], "at_once": {}}, change(level="KILL"), "23:00", "chat r0 +28800*"),
        "to the window's end": ({"digest": {"every": "15m"}}, change(), "12:01", "chat r0 +840*"),
        "a digest sleeps": ({"digest": {"every": "15m"}, "quiet": [NIGHT]}, change(), "21:55", "chat r0 +32700*"),
        "a pager has no digest": ({"quiet": [NIGHT], "channels": ["pager"]}, change(), "23:00", "pager r0 +28800"),
    },
)  # fmt: skip
def test_when_it_is_sent(route: dict[str, Any], record: IncidentRecord, moment: str, actual: str) -> None:
    assert planned(record, at(moment), route) == [actual]


changes = st.builds(
    change,
    st.sampled_from(["opened", "escalated", "approval_wanted", "acknowledged", "resolved", "counted"]),
    st.integers(1, 50),
    level=st.sampled_from(["NUDGE", "PAUSE", "KILL"]),
    severity=st.sampled_from([None, "low", "critical"]),
)
routes = st.fixed_dictionaries(
    {},
    optional={
        "match": st.sampled_from([{}, {"level": "PAUSE"}, {"during": [NIGHT]}]),
        "channels": st.lists(st.sampled_from(sorted(CHANNELS)), unique=True),
        "digest": st.sampled_from([{"every": "7m"}, {"every": "1h", "by": ["agent"]}]),
        "quiet": st.sampled_from([[], [NIGHT]]),
        "continue": st.booleans(),
    },
)


@given(changes, st.integers(T0_MS, T0_MS + 7 * DAY_MS), st.lists(routes, min_size=1, max_size=4))
def test_a_channel_is_notified_once_and_never_before_the_change(
    record: IncidentRecord, at_ms: int, chosen: list[dict[str, Any]]
) -> None:
    found = plan(record, at_ms, config(*chosen), tuple(CHANNELS))
    assert len({one.channel for one in found}) == len(found) == len({one.notification_id for one in found})
    assert all(at_ms <= one.due_ms <= at_ms + DAY_MS for one in found)
    assert all((one.digest is not None) <= (one.due_ms > at_ms) for one in found)
    assert plan(record, at_ms, config(*chosen), tuple(CHANNELS)) == found


NIGHTS = Hours.model_validate({"from": "22:00", "to": "07:00", "time_zone": "Europe/Berlin"})
WEEKEND = Hours.model_validate({"days": ["sat", "sun"], "time_zone": "Europe/Berlin"})
FRIDAY_NIGHT = Hours.model_validate({"days": ["fri"], "from": "18:00", "to": "00:00", "time_zone": "Europe/Berlin"})


def ms(text: str, zone: str = "Europe/Berlin", fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


@pytest.mark.parametrize(
    ("hours", "at", "over"),
    [
        pytest.param([NIGHTS], "2026-03-10T12:00", "2026-03-10T12:00", id="by day it is over at once"),
        pytest.param([NIGHTS], "2026-03-10T22:00", "2026-03-11T07:00", id="the first minute is within"),
        pytest.param([NIGHTS], "2026-03-11T06:59:59", "2026-03-11T07:00", id="and the last after midnight"),
        pytest.param([NIGHTS], "2026-03-11T07:00", "2026-03-11T07:00", id="the end is not"),
        pytest.param([WEEKEND], "2026-03-14T09:00", "2026-03-16T00:00", id="two whole days end on Monday"),
        pytest.param([WEEKEND, FRIDAY_NIGHT], "2026-03-13T18:00", "2026-03-16T00:00", id="hours that meet are one"),
        pytest.param([WEEKEND, NIGHTS], "2026-03-15T12:00", "2026-03-16T07:00", id="hours that overlap are one"),
        pytest.param([NIGHTS], "2026-03-29T01:30", "2026-03-29T07:00", id="a night in which an hour is missing"),
        pytest.param([NIGHTS], "2026-10-25T01:30", "2026-10-25T07:00", id="a night that has one more"),
    ],
)
def test_when_hours_are_over(hours: list[Hours], at: str, over: str) -> None:
    assert over_at(hours, ms(at)) == ms(over)


def test_an_end_that_comes_twice_is_the_next_one_and_hours_that_never_end_are_refused() -> None:
    hours = Hours.model_validate({"from": "00:00", "to": "02:30", "time_zone": "Europe/Berlin"})
    assert over_at([hours], ms("2026-10-25T02:10", fold=1)) == ms("2026-10-25T02:30", fold=1)
    with pytest.raises(ValueError, match="expected hours that end"):
        over_at([Hours()], 0)


def item(
    name: str, due_ms: int = 0, *, incident: str = "i", revision: int = 1, digest: str | None = None, route: str = "r"
) -> Item[str]:
    planned = Planned(notification_id=name, channel="c", route=route, due_ms=due_ms, digest=digest)
    return Item(planned=planned, record=change("opened", revision, incident), at_ms=0, origin=name)


def sent(waiting: DeliveryQueue[str], now_ms: int) -> list[list[str]]:
    """The messages that are due, by the names of their items."""
    messages = []
    while taken := waiting.take(now_ms, 10):
        messages.append([one.planned.notification_id for one in taken])
    return messages


@pytest.mark.parametrize(
    ("items", "now_ms", "messages"),
    [
        pytest.param([item("a"), item("b")], 0, [["a"], ["b"]], id="in the order in which they came"),
        pytest.param([item("a", 9), item("b", incident="j")], 5, [["b"]], id="not before it is due"),
        pytest.param([item("a", 9), item("b", 5, incident="j")], 9, [["b"], ["a"]], id="what is due first is first"),
        pytest.param([item("a", 9, digest="d"), item("b", 9, digest="d"), item("c", 9, digest="e")], 9,
                     [["a", "b"], ["c"]], id="one message of each digest"),
        pytest.param([item("a", 9, digest="d"), item("b", revision=2), item("c", 9, digest="d", incident="j")], 5,
                     [["a"], ["b"]], id="what is sent at once takes with it what is held back of its incident"),
        pytest.param([item("a", 9), item("b", route=FOLLOWED, revision=2)], 9, [["a"], ["b"]],
                     id="what only follows waits for what is held back of its incident"),
        pytest.param([item("a"), item("a")], 0, [["a"]], id="each once"),
    ],
)  # fmt: skip
def test_what_is_sent(items: list[Item[str]], now_ms: int, messages: list[list[str]]) -> None:
    waiting: DeliveryQueue[str] = DeliveryQueue()
    for one in items:
        waiting.add(one)
    assert sent(waiting, now_ms) == messages


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 5, 9]), st.sampled_from(["", "d", "e"]), st.booleans()),
    max_size=30,
)


@given(steps, st.integers(0, 6))
def test_each_is_sent_once_and_none_is_lost(chosen: list[tuple[int, int, str, bool]], halfway_ms: int) -> None:
    waiting: DeliveryQueue[str] = DeliveryQueue()
    for number, (incident, due_ms, digest, follows) in enumerate(chosen):
        one = item(str(number), due_ms, incident=str(incident), revision=number + 1, digest=digest or None)
        if follows:
            one = replace(one, planned=replace(one.planned, route=FOLLOWED))
        waiting.add(one)
        if number == len(chosen) // 2:
            early = sent(waiting, halfway_ms)
    messages = [*(early if chosen else []), *sent(waiting, 9)]
    assert sorted(name for message in messages for name in message) == sorted(map(str, range(len(chosen))))
    assert (len(waiting), waiting.next_due_ms()) == (0, None)
