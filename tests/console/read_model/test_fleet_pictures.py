"""The data of the fleet page's charts, compared with counts over a list."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import Engine

from haltline.console.read_model import fleet
from haltline.console.read_model.sql import Sql
from haltline.console.read_model.store import open_store
from haltline.console.routes.fleet import limits_of
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind, Outcome, Usage
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.intervention_records import RecordOutcome
from haltline.schemas.policy import Policy
from haltline.streams.history.fold import take_in
from haltline.streams.history.queries import targets_of
from haltline.streams.policy.loader import parse_policy
from tests.builders import cases
from tests.console.databases import database
from tests.console.read_model.test_intervention_queries import DAYS, FIRST_MS, keep, level_of, made
from tests.console.topics import Said, messages_of, rows

MS_PER_HOUR = 3_600_000
NOW_MS = FIRST_MS + DAYS * 24 * MS_PER_HOUR - 1


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_store(database(tmp_path_factory.mktemp("pictures")))
    keep(engine, made())
    return engine


@cases("hours", {"an hour": 1, "a day": 24, "a week": 168})
def test_trips_over_time_and_the_top_are_what_a_list_has(filled: Engine, hours: int) -> None:
    drawn = fleet.trips(filled, NOW_MS, hours)
    tripped = [one for one in made() if one.outcome is not RecordOutcome.WARNED]
    shown = [one for one in tripped if drawn["from_ms"] <= one.timestamp <= NOW_MS]
    counted = Counter((level_of(one), (one.timestamp - drawn["from_ms"]) // drawn["step_ms"]) for one in shown)
    of_steps = {(of["level"], step): count for of in drawn["levels"] for step, count in enumerate(of["counts"])}
    assert ({at: count for at, count in of_steps.items() if count}, drawn["total"]) == (dict(counted), len(shown))
    assert {len(of["counts"]) for of in drawn["levels"]} <= {hours * MS_PER_HOUR // drawn["step_ms"]}
    top = fleet.top(filled, NOW_MS, hours, 10)
    since = [one for one in tripped if NOW_MS - hours * MS_PER_HOUR <= one.timestamp <= NOW_MS]
    assert {one["name"]: one["trips"] for one in top["agents"]} == Counter(one.agent_id for one in since)
    tools = Counter(one.action_name for one in since if one.action_name)
    assert {one["name"]: one["trips"] for one in top["tools"]} == tools


def acts(session: str, *, target: str = "", errors: int = 3) -> list[Said]:
    """The same deletion again and again, until it is stopped; it says what it acts on only by its arguments."""
    events = []
    for number in range(errors):
        common = {"session_id": session, "agent_id": "cleaner", "call_id": f"{session}{number}"}
        what = {"action": "delete_asset", "args": {"asset_id": session}, "targets": [target] if target else []}
        of: dict[str, Any] = common | what
        time_ms = NOW_MS - 60_000 * (errors - number)
        events.append(ActionEvent(event_id=f"{session}p{number}", kind=Kind.PROPOSED, time=time_ms, **of))
        events.append(
            ActionEvent(
                event_id=f"{session}c{number}", kind=Kind.COMPLETED, time=time_ms + 10, outcome=Outcome.ERROR,
                error="still there", usage=Usage(cost_usd=0.25), **of,
            )
        )  # fmt: skip
    return messages_of(events)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, list[Said]]:
    engine = open_store(database(tmp_path_factory.mktemp("taken")))
    said = [*acts("calm", errors=1), *acts("loop", target="asset_id=a"), *acts("bare")]
    with engine.begin() as connection:
        take_in(Sql(connection), rows(said), "haltline.")
    return engine, said


def test_what_is_spent_live_and_touched_is_that_of_the_sessions_and_their_incidents(
    taken: tuple[Engine, list[Said]],
) -> None:
    engine, said = taken
    spent = fleet.spending(engine, NOW_MS)
    assert len(spent["cost_usd"]) == 60
    last = zip(spent["cost_usd"][-4:], spent["most_usd"][-4:], spent["sessions"][-4:], strict=True)
    assert list(last) == [(0.0, 0.0, 0), (0.5, 0.25, 2), (0.5, 0.25, 2), (0.75, 0.25, 3)]
    found = fleet.live(engine, NOW_MS, 10)
    groups = [(group["cause"], [one["session_id"] for one in group["sessions"]]) for group in found["groups"]]
    assert groups == [("destruction", ["bare", "loop"]), (None, ["calm"])]
    assert {one["state"] for one in found["groups"][0]["sessions"]} == {"killed"}
    incidents = {one.incident_id for _, _, one in said if isinstance(one, IncidentRecord)}
    assert found["groups"][0]["incident_id"] in incidents
    cut = fleet.live(engine, NOW_MS, 1)
    assert (cut["total"], [len(group["sessions"]) for group in cut["groups"]]) == (3, [1])
    decisions = [one for _, _, one in said if isinstance(one, Decision) and one.detector]
    targets = targets_of(Sql(engine), decisions)
    of_sessions = {(one.session_id, *targets[one.decision_id]) for one in decisions}
    assert of_sessions == {("loop", "asset_id=a"), ("bare", "asset_id=bare")}


@cases(
    "document, expected",
    {
        "the defaults": ("name: default", [("spend_velocity", "cost_usd", 10.0, "session and minute")]),
        "a total of an agent and no rate": (
            "rules: {spend_velocity: {enabled: false}, agent_budget: {settings: {limits: {cost_usd: 9}, period_h: 2}}}",
            [("agent_budget", "cost_usd", 9.0, "agent and 2 h")],
        ),
        "an override for the agent": (
            "overrides: [{agent: cleaner, rules: {budget: {settings: {limits: {cost_usd: 2}}}}}]",
            [("budget", "cost_usd", 2.0, "session"), ("spend_velocity", "cost_usd", 10.0, "session and minute")],
        ),
        "none": ("rules: {spend_velocity: {settings: {cost_usd_per_min: null}}}", []),
    },
)
def test_limits_are_those_of_the_policy_for_the_session(
    document: str, expected: list[tuple[str, str, float, str]]
) -> None:
    policy: Policy = parse_policy(document)
    found = limits_of(policy, "cleaner", "s", NOW_MS)
    assert [(one.rule, one.resource, one.limit, one.per) for one in found if one.resource == "cost_usd"] == expected
