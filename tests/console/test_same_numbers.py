"""Every count of every page, command and report is that of one fold over the same records."""

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.streams.history import queries
from haltline.streams.history.fold import take_in
from haltline.streams.history.incident_report import Report
from haltline.streams.history.kept import KEYS, Memory
from haltline.streams.policy.loader import parse_policy
from tests.builders import T0_MS
from tests.console.serving import bearer, console_in, context, tell
from tests.console.topics import Said, messages_of, rows
from tests.streams.commands import haltline
from tests.streams.engine.test_groups import delete, event, spends
from tests.streams.notify.records import change
from tests.streams.running import ASKING

NOW_MS = time.time_ns() // 1_000_000
SINCE_MS = NOW_MS - 120_000 - T0_MS


def of_operator(kind: CommandKind, session: str, seconds: float, **fields: Any) -> Command:
    given = {"command_id": f"{kind}-{session}", "by": "ada", "reason": "r", "time": T0_MS + round(seconds * 1000)}
    return Command(kind=kind, scope=ScopeKind.SESSION, id=session, **given | fields)


def fleet() -> list[Said]:
    """Loops that were killed, calls and sessions that wait, acts of operators, sessions that ended, what was spent."""
    loops = [delete(n + 10 * s, f"loop{s}", f"asset_id=t{s}") for s in range(3) for n in range(1, 5)]
    others: list[ActionEvent | Command] = [
        *(spends(n, f"calm{n % 3}", 0.25) for n in range(9)),
        event(60, "calm1", Kind.SESSION_ENDED),
        of_operator(CommandKind.KILL, "calm2", 61),
        of_operator(CommandKind.FREEZE, "calm0", 62),
        of_operator(CommandKind.LABEL, "loop1", 63, label="missed", code="budget"),
    ]
    asks = [delete(n + 30 * s, f"ask{s}", f"asset_id=a{s}", await_verdict=True) for s in range(2) for n in range(1, 4)]
    moved = [one.model_copy(update={"time": one.time + SINCE_MS}) for one in (*loops, *others)]
    waiting = [one.model_copy(update={"time": one.time + SINCE_MS}) for one in asks]
    snoozed = change("snoozed", 2, scope_id="calm9", session_id="calm9", snoozed_until=NOW_MS + 3_600_000)
    return [*messages_of(moved), *messages_of(waiting, parse_policy(ASKING)), ("incidents", "calm9", snoozed)]


def folded(records: list[dict[str, Any]]) -> Memory:
    history = Memory()
    take_in(history, records, "haltline.")
    return history


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Memory]]:
    said = fleet()
    with console_in(tmp_path_factory.mktemp("numbers")) as client:
        client.headers.update(bearer(Role.ADMIN))
        tell(client, said)
        yield client, folded(rows(said))


def test_pages_say_what_the_fold_says(served: tuple[TestClient, Memory]) -> None:
    client, history = served

    def got(path: str, **params: Any) -> Any:
        answer = client.get(f"/api/v1{path}", params=params)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    now_ms, sessions = time.time_ns() // 1_000_000, history.rows("sessions")
    needs, interventions = queries.needs_person(history, now_ms), history.rows("interventions", ("hidden", "=", False))
    tripped = sum(one["outcome"] != "warned" for one in interventions)
    live = history.count("sessions", *queries.live(now_ms))
    counted = {
        "held": len(needs.held), "killed": len(needs.killed), "waiting": len(needs.waiting),
        "incidents": needs.incidents, "snoozed": needs.snoozed,
    }  # fmt: skip
    assert all(counted.values()), "the fleet has some of each"
    assert set(needs.killed) == {"loop0", "loop2"}, "ada killed calm2 herself, and has labelled loop1"
    view = got("/fleet")
    attention = got("/attention")
    assert {one["session_id"] for one in attention["stopped"]} == {*needs.held, *needs.killed}
    assert [one["id"] for one in attention["requests"]] == list(needs.waiting)
    states = [one["state"] for one in history.rows("control")]
    assert view["needs_person"] == counted
    assert (view["live"], view["sessions"], view["events"]) == (live, len(sessions), sum(s["events"] for s in sessions))
    assert view["cost_usd"] == sum(one["cost_usd"] for one in sessions) == sum(got("/fleet/spending")["cost_usd"])
    assert view["standing"] == {state: states.count(state) for state in states}
    assert (view["incidents"], view["waiting"]) == (counted["incidents"] + 1, counted["waiting"])
    assert view["trips_24h"] == got("/fleet/trips")["total"] == tripped == sum(view["trips_by_hour"])
    assert sum(one["trips"] for one in got("/fleet/top", limit=100)["agents"]) == tripped
    assert got("/fleet/live")["total"] == live == sum(len(one["sessions"]) for one in got("/fleet/live")["groups"])
    listed = got("/sessions", limit=200)
    assert listed["total"] == len(sessions)
    assert sum(one["interventions"] for one in listed["sessions"]) == len(interventions)
    of_loop = got("/sessions/loop0", limit=5000)
    steps = [row for row in history.rows("records", ("session_id", "=", "loop0")) if row["topic"] != "incidents"]
    assert of_loop["total"] == len(steps) == len(of_loop["steps"])
    assert len(got("/control")) == len(states)
    killed = history.count("control", ("scope", "=", "session"), ("state", "=", "killed"))
    assert got("/sessions", state="killed")["total"] == killed
    assert got("/incidents")["total"] == history.count("incidents")
    assert got("/incidents", open_only=True)["total"] == needs.incidents + needs.snoozed
    assert got("/approvals")["total"] == history.count("approvals")
    assert [one["id"] for one in got("/approvals/pending")["approvals"]] == list(needs.waiting)
    assert got("/interventions")["total"] == got("/interventions/stats")["total_interventions"] == len(interventions)
    found = history.count("records", ("topic", "=", "detections"))
    assert got("/detections")["total"] == found
    assert got("/precision")["labels"] == history.count("records", ("kind", "=", "label"))
    for one in queries.incidents(history):
        shown, report = got(f"/incidents/{one.incident_id}"), queries.report(history, one, one.scope_id)
        assert (shown["state"], shown["count"]) == (one.state, one.count)
        revisions = [change["revision"] for change in got(f"/incidents/{one.incident_id}/history")]
        assert revisions == [change.revision for change in queries.revisions(history, one.incident_id)]
        if report is not None:
            assert Report.model_validate(got(f"/incidents/{one.incident_id}/report")) == report


def test_commands_say_what_the_fold_says(served: tuple[TestClient, Memory]) -> None:
    client, history = served
    where = ("--bootstrap", context(client).settings.bootstrap, "--json")

    def said(*words: str) -> Any:
        return orjson.loads(haltline(*words, *where).stdout)

    needs = queries.needs_person(history, time.time_ns() // 1_000_000)
    every = [one["incident_id"] for one in said("incidents", "--all")]
    assert every == [one.incident_id for one in queries.incidents(history)]
    assert len(said("incidents")) == needs.incidents + needs.snoozed
    assert len(said("incidents", "show", every[0])) == len(queries.revisions(history, every[0]))
    assert [one["approval"]["request_id"] for one in said("approvals")] == list(needs.waiting)
    assert len(said("approvals", "--all")) == history.count("approvals")
    assert {one["id"] for one in said("status")["control"]} == {one["id"] for one in history.rows("control")}
    reached = said("kill", "--scope", "fleet", "--preview", "--reason", "r", "--by", "ada")
    assert len(reached["sessions"]) == history.count("sessions", ("ended", "=", False))


def test_another_order_of_partitions_makes_the_same_rows() -> None:
    records = rows(fleet())
    expected, random = folded(records), Random(3)
    for topics in (sorted, lambda names: sorted(names, reverse=True), lambda names: random.sample(names, len(names))):
        order = topics([*{one["topic"] for one in records}])
        other = folded(sorted(records, key=lambda one: (order.index(one["topic"]), one["offset"])))
        for table, key in KEYS.items():
            by_key = [sorted(of.rows(table), key=lambda row: [row[name] for name in key]) for of in (expected, other)]
            assert by_key[0] == by_key[1], table


def test_of_more_than_is_kept_the_oldest_is_left_out_and_counted() -> None:
    history = Memory(most=2)
    for number in (1, 2, 1, 3):
        history.put("control", [{"key": str(number), "state": "killed"}])
    assert [row["key"] for row in history.rows("control")] == ["1", "3"]
    assert history.left_out == {"control": 1}
