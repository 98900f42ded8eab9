"""The API on the embedded broker, with records as workers write them."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.console.routes.interventions import NewIntervention
from haltline.schemas.intervention_records import InterventionRecord
from haltline.streams.history.fold import take_in
from haltline.streams.history.kept import Memory
from tests.builders import cases
from tests.console.counted_records import statistics
from tests.console.serving import LOOP, bearer, tell
from tests.console.topics import messages_of, rows
from tests.streams.engine.test_groups import event, spends

NIGHT = messages_of([spends(0, "a", 0.5), *LOOP])
BEFORE = {"end_date": "2025-06-15T16:00:00Z"}
"""Leaves out what other tests of the module have written."""


@pytest.fixture(scope="module")
def console(console: TestClient) -> TestClient:
    """With a session that was stopped for a loop."""
    tell(console, NIGHT)
    return console


def test_what_was_intervened_is_listed_filtered_and_reported_in_whole(client: TestClient) -> None:
    history = Memory()
    take_in(history, rows(NIGHT), "haltline.")
    expected = [InterventionRecord.model_validate_json(row["body"]) for row in history.rows("interventions")]
    loops = {"type": "loop_detected", "risk_level": "critical", **BEFORE}
    page = client.get("/api/v1/interventions", params=loops).json()
    (one,) = page["interventions"]
    told = (one["outcome"], one["action_name"], one["run_id"], one["agent_id"])
    assert told == ("blocked", "delete_asset", "a", "cleaner")
    assert (one["timestamp"], page["total"], page["skip"], page["limit"]) == ("2025-06-15T15:06:43.000Z", 1, 0, 50)
    assert client.get(f"/api/v1/interventions/{one['id']}").json() == one
    assert client.get("/api/v1/interventions/stats", params=BEFORE).json() == statistics(expected)
    assert client.get("/api/v1/interventions", params={"outcome": "warned", "limit": 1}).json()["limit"] == 1
    filtered: list[tuple[dict[str, str], int]] = [
        ({"agent_id": "cleaner"}, 3),
        ({"agent_id": "other"}, 0),
        ({"run_id": "a", "policy_id": "destructive_repeat"}, 2),
        ({"action_name": "delete_asset", "outcome": "blocked"}, 2),
        ({"start_date": "2025-06-15T15:06:44Z"}, 1),
        ({"end_date": "2025-06-15T15:06:42"}, 1),  # in UTC
        ({"search": "FACT_SALES"}, 3),
        ({"search": "100%_"}, 0),  # signs of SQL are signs
        ({"min_prevented_usd": "0"}, 0),
    ]
    for filters, count in filtered:
        page = client.get("/api/v1/interventions", params=BEFORE | filters).json()
        assert (page["total"], len(page["interventions"])) == (count, count), filters


NEW = NewIntervention.model_json_schema()["examples"][0]
OF_SDK = {
    **{name: value for name, value in NEW.items() if name not in ("type", "description", "estimated_cost_usd")},
    "run_id": "run_sdk",
    "intervention_type": "hard_block",
    "action_description": "Attempted dangerous operation",
    "estimated_cost": 10.0,
    "task_id": None,
    "context": {},
    "timestamp": "2025-06-15T15:06:40+00:00",
}


def test_a_record_that_is_created_is_read_by_its_writer_counts_and_can_be_hidden(client: TestClient) -> None:
    run = {"run_id": str(NEW["run_id"])}
    made = client.post("/api/v1/interventions", json=NEW)
    assert made.status_code == 201, made.text
    record = made.json()
    assert {name: record[name] for name in NEW} == NEW
    assert record["cost_prevented_usd"] == 10.0
    assert client.get(f"/api/v1/interventions/{record['id']}").json() == record
    stats = client.get("/api/v1/interventions/stats", params=run).json()
    assert (stats["total_interventions"], stats["cost_prevented_usd"], stats["high_risk_blocks"]) == (1, 10.0, 1)
    assert client.delete(f"/api/v1/interventions/{record['id']}").status_code == 204
    assert client.get(f"/api/v1/interventions/{record['id']}").status_code == 404
    assert client.get("/api/v1/interventions", params=run).json()["total"] == 0
    assert client.get("/api/v1/interventions/stats", params=run).json()["total_interventions"] == 0
    made = client.post("/api/v1/interventions", json={**NEW, "run_id": "many", "original_inputs": {"n": 2**70}})
    assert made.status_code == 201, made.text
    assert client.get(f"/api/v1/interventions/{made.json()['id']}").json()["original_inputs"] == {"n": 2**70}
    one, other = (client.post("/api/v1/interventions/", json=OF_SDK).json() for _ in range(2))
    assert one["id"] == other["id"]
    told = (one["type"], one["description"], one["estimated_cost_usd"])
    assert told == ("hard_block", "Attempted dangerous operation", 10.0)
    assert client.get("/api/v1/interventions", params={"run_id": "run_sdk"}).json()["total"] == 1
    assert client.delete(f"/api/v1/interventions/{one['id']}").status_code == 204  # others count what was then


def test_a_session_has_its_story_in_order(client: TestClient) -> None:
    story = client.get("/api/v1/sessions/a").json()
    assert (story["session"]["level"], story["session"]["cost_usd"], story["session"]["events"]) == ("KILL", 0.5, 5)
    assert [step["time"] for step in story["steps"]] == sorted(step["time"] for step in story["steps"])
    killed = next(step["time"] for step in story["steps"] if step["topic"] == "control")
    at_once = [step["topic"] for step in story["steps"] if step["time"] == killed]
    assert list(dict.fromkeys(at_once)) == ["actions", "detections", "interventions", "control"]
    assert client.get("/api/v1/sessions/none").status_code == 404


REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lists": ("GET", "/api/v1/interventions", {}),
    "records": ("POST", "/api/v1/interventions", {"json": NEW}),
    "kills": ("POST", "/api/v1/kill", {"json": {"id": "x", "unknown": True, "reason": "no"}}),
    **{f"{act}s": ("POST", f"/api/v1/{act}", {"json": {"id": "x"}}) for act in ("freeze", "contain", "lift")},
    "mutes": ("POST", "/api/v1/policies/default/mutes", {"json": {}}),
    "hides": ("DELETE", "/api/v1/interventions/int_1", {}),
}


@cases(
    "role, allowed",
    {
        "a viewer looks": (Role.VIEWER, ["lists"]),
        "an agent tells": (Role.AGENT, ["records"]),
        "an operator acts": (Role.OPERATOR, ["lists", "records", "kills", "freezes", "contains", "lifts", "mutes"]),
    },
)
def test_what_a_role_may(client: TestClient, role: Role, allowed: list[str]) -> None:
    def status(method: str, path: str, more: dict[str, Any]) -> int:
        return client.request(method, path, headers=bearer(role), **more).status_code

    assert [what for what, request in REQUESTS.items() if status(*request) != 403] == allowed


def test_who_has_no_key_sees_nothing(client: TestClient) -> None:
    client.headers.pop("Authorization")
    for header in (None, "Bearer nobody's", "Basic abc", "Bearer "):
        headers = {} if header is None else {"Authorization": header}
        answer = client.get("/api/v1/interventions", headers=headers)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), header


def test_what_no_worker_answers_is_kept_listed_and_says_so(client: TestClient) -> None:
    answer = client.post("/api/v1/kill", json={"id": "night-7", "unknown": True, "reason": "wrong schema"}).json()
    assert (answer["answered"], answer["state"]) == (False, None)
    assert client.get("/healthz").json()["ok"]


def test_a_session_says_from_which_target_on_it_is_not_found(client: TestClient) -> None:
    targets = [f"path=/srv/{number:04d}" for number in range(900)]
    for second, named in ((5, targets), (6, targets[-1:])):
        tell(client, messages_of([event(second, "wide", action="read", targets=named)]))
    found = client.get("/api/v1/sessions/wide").json()["session"]["targets_until"]
    assert found in targets
    for target, total in ((targets[0], 1), (targets[targets.index(found) - 1], 1), (found, 0), (targets[-1], 0)):
        assert client.get("/api/v1/sessions", params={"search": target}).json()["total"] == total, target
