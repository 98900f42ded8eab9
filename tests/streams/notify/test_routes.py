from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.notify.config import Config
from haltline.streams.notify.routes import plan
from tests.builders import T0_MS
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


def planned(record: IncidentRecord, at_ms: int, *routes: dict[str, Any], reported: tuple[str, ...] = ()) -> list[str]:
    """`channel route +seconds`, with * where it is of a digest."""
    return [
        f"{one.channel} {one.route} +{(one.due_ms - at_ms) // 1000}{'*' if one.digest else ''}"
        for one in plan(record, at_ms, config(*routes), reported)
    ]


@pytest.mark.parametrize(
    ("match", "record", "reported"),
    [
        pytest.param({}, change(), True, id="a route without a condition takes all"),
        pytest.param({"level": "PAUSE"}, change(level="PAUSE"), True, id="the level itself"),
        pytest.param({"level": "PAUSE"}, change(level="THROTTLE"), False, id="a level below"),
        pytest.param({"severity": "high"}, change(severity="critical"), True, id="a severity above"),
        pytest.param({"severity": "low"}, change(severity=None), False, id="no severity is none"),
        pytest.param({"cause": "rep*"}, change(), True, id="a cause by its pattern"),
        pytest.param({"cause": ["a", "b*"]}, change(), False, id="a cause that none of the patterns has"),
        pytest.param({"agent": ["prod-*", "clean?r"]}, change(), True, id="an agent by one of two patterns"),
        pytest.param({"agent": "Cleaner"}, change(), False, id="letters are told apart by case"),
        pytest.param({"mission": "night-*"}, change(mission_id="night-7"), True, id="a mission by its pattern"),
        pytest.param({"mission": "night-*"}, change(), False, id="no mission"),
        pytest.param({"scope": ["agent"]}, change(), False, id="another scope"),
        pytest.param({"level": "PAUSE", "cause": "x"}, change(), False, id="all conditions must hold"),
        pytest.param({"during": [NIGHT]}, change(), False, id="another time of day"),
        pytest.param({"during": [{"from": "11:00", "to": "13:00"}]}, change(), True, id="its time of day"),
    ],
)
def test_which_incidents_a_route_takes(match: dict[str, Any], record: IncidentRecord, reported: bool) -> None:
    assert planned(record, at("12:00"), {"match": match}) == (["chat r0 +0"] if reported else [])


@pytest.mark.parametrize(
    ("what", "reported"),
    [
        pytest.param("opened", True, id="opened"),
        pytest.param("escalated", True, id="escalated"),
        pytest.param("approval_wanted", True, id="an approval is wanted"),
        pytest.param("approval_closed", False, id="an approval was answered: not unless asked for"),
        pytest.param("acknowledged", True, id="acknowledged"),
        pytest.param("resolved", True, id="resolved"),
        pytest.param("counted", False, id="one more decision: not unless asked for"),
        pytest.param("commented", False, id="commented: not unless asked for"),
        pytest.param("assigned", False, id="assigned: not unless asked for"),
    ],
)
def test_which_changes_are_notified_without_asking(what: str, reported: bool) -> None:
    assert bool(planned(change(what), at("12:00"), {})) is reported
    assert planned(change(what), at("12:00"), {"changes": [what]}) == ["chat r0 +0"]


@pytest.mark.parametrize(
    ("routes", "actual"),
    [
        pytest.param([{}, {"channels": ["mail"]}], ["chat r0 +0"], id="the first that matches"),
        pytest.param([{"continue": True}, {"channels": ["mail"]}], ["chat r0 +0", "mail r1 +0"], id="and on"),
        pytest.param([{"continue": True}, {}], ["chat r0 +0"], id="a channel once, by the first route"),
        pytest.param([{"channels": []}, {}], [], id="a route without channels ends it"),
        pytest.param([{"match": {"level": "KILL"}}, {"channels": ["mail"]}], ["mail r1 +0"], id="the next, if not"),
    ],
)
def test_the_order_of_routes(routes: list[dict[str, Any]], actual: list[str]) -> None:
    assert planned(change(), at("12:00"), *routes) == actual


@pytest.mark.parametrize(
    ("route", "record", "moment", "actual"),
    [
        pytest.param({"quiet": [NIGHT]}, change(), "23:00", "chat r0 +28800*", id="held back until the morning"),
        pytest.param({"quiet": [NIGHT]}, change(level="KILL"), "23:00", "chat r0 +0", id="a kill is told at once"),
        pytest.param({"quiet": [NIGHT]}, change(severity="critical"), "23:00", "chat r0 +0", id="critical too"),
        pytest.param({"quiet": [NIGHT], "at_once": {}}, change(level="KILL"), "23:00", "chat r0 +28800*",
                     id="unless nothing is"),
        pytest.param({"digest": {"every": "15m"}}, change(), "12:01", "chat r0 +840*", id="to the window's end"),
        pytest.param({"digest": {"every": "15m"}}, change(), "12:15", "chat r0 +900*", id="its end begins the next"),
        pytest.param({"digest": {"every": "15m"}, "quiet": [NIGHT]}, change(), "21:55", "chat r0 +32700*",
                     id="a digest sleeps"),
        pytest.param({"quiet": [NIGHT], "channels": ["pager"]}, change(), "23:00", "pager r0 +28800",
                     id="a pager has no digest"),
    ],
)  # fmt: skip
def test_when_it_is_sent(route: dict[str, Any], record: IncidentRecord, moment: str, actual: str) -> None:
    assert planned(record, at(moment), route) == [actual]


@pytest.mark.parametrize(
    ("by", "one", "other", "same"),
    [
        pytest.param([], change(), change(agent_id="b"), True, id="one digest for all"),
        pytest.param(["agent"], change(), change(agent_id="b"), False, id="one for each agent"),
        pytest.param(["agent", "cause"], change(), change(cause="cycle"), False, id="one for each cause of each agent"),
        pytest.param(["agent", "cause"], change(), change(session_id="s2"), True, id="whatever else they have"),
    ],
)
def test_what_is_in_one_digest(by: list[str], one: IncidentRecord, other: IncidentRecord, same: bool) -> None:
    chosen = config({"digest": {"every": "15m", "by": by}})
    keys = {plan(record, at("12:01"), chosen)[0].digest for record in (one, other)}
    assert (len(keys) == 1) is same


@pytest.mark.parametrize(
    ("what", "reported", "actual"),
    [
        pytest.param("resolved", ("pager",), ["pager  +0"], id="a pager that was told hears of the end"),
        pytest.param("acknowledged", ("pager",), ["pager  +0"], id="and that somebody has it"),
        pytest.param("escalated", ("pager",), [], id="not of what no route leads to it"),
        pytest.param("resolved", ("chat",), [], id="people hear what their routes say"),
        pytest.param("resolved", (), [], id="who was not told hears nothing"),
    ],
)
def test_who_keeps_incidents_hears_of_their_end(what: str, reported: tuple[str, ...], actual: list[str]) -> None:
    by_day = {"match": {"during": [{"from": "08:00", "to": "18:00"}]}, "channels": ["pager", "chat"]}
    assert planned(change(what, 2), at("19:00"), by_day, reported=reported) == actual


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


def test_other_revisions_and_other_channels_have_other_ids() -> None:
    both = config({"channels": ["chat", "mail"]})
    ids = [one.notification_id for revision in (1, 2) for one in plan(change("opened", revision), 0, both)]
    assert len(set(ids)) == 4
