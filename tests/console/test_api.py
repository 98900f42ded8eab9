"""The API on the embedded broker, with what workers would have written."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Keys, Role, Who
from haltline.console.app import create_app
from haltline.console.settings import ConsoleSettings
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.streams.audit.records import records_of, statistics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import at
from tests.console.databases import database as a_database
from tests.console.topics import messages_of, produce
from tests.streams.engine.test_local_fleet import delete, spends
from tests.waiting import wait_until

KEYS = {role: f"hl_{role}" for role in Role}


@pytest.fixture
def client(embedded: EmbeddedBroker, tmp_path: Path) -> Iterator[TestClient]:
    with serving(embedded.bootstrap, tmp_path / "model.db") as client:
        yield client


def serving(bootstrap: str, database: Path, **options: Any) -> TestClient:
    keys = Keys.of((key, Who(f"{role} ada", role)) for role, key in KEYS.items())
    settings = ConsoleSettings(
        bootstrap=bootstrap, keys=keys, database=a_database(database.parent), answer_within_s=0.2, **options
    )
    return TestClient(create_app(settings), headers=bearer(Role.ADMIN))


def bearer(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS[role]}"}


LOOP = [delete(n, "a") for n in range(1, 5)]


def has(client: TestClient, expected: int) -> Callable[[], bool]:
    return lambda: bool(client.get("/api/v1/interventions").json()["total"] == expected)


def test_what_was_intervened_is_listed_filtered_and_reported_in_whole(
    client: TestClient, embedded: EmbeddedBroker
) -> None:
    records = messages_of(LOOP)
    produce(embedded.bootstrap, records)
    decisions = [record for _, _, record in records if isinstance(record, Decision)]
    expected = records_of(decisions, {event.event_id: event for event in LOOP})
    wait_until(has(client, len(expected)), "the read model has every decision")
    page = client.get("/api/v1/interventions", params={"type": "loop_detected", "risk_level": "critical"}).json()
    (one,) = page["interventions"]
    assert (one["outcome"], one["action_name"], one["run_id"], one["agent_id"]) == (
        "blocked",
        "delete_asset",
        "a",
        "cleaner",
    )
    assert (one["timestamp"], page["total"], page["skip"], page["limit"]) == ("2025-06-15T15:06:43.000Z", 1, 0, 50)
    assert client.get(f"/api/v1/interventions/{one['id']}").json() == one
    assert client.get("/api/v1/interventions/stats").json() == statistics(expected)
    assert client.get("/api/v1/interventions", params={"outcome": "warned", "limit": 1}).json()["limit"] == 1


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        pytest.param({"agent_id": "cleaner"}, 3, id="its agent"),
        pytest.param({"agent_id": "other"}, 0, id="another agent"),
        pytest.param({"run_id": "a", "policy_id": "destructive_repeat"}, 2, id="session and rule"),
        pytest.param({"action_name": "delete_asset", "outcome": "blocked"}, 2, id="tool and outcome"),
        pytest.param({"start_date": "2025-06-15T15:06:44Z"}, 1, id="from a moment on, which counts"),
        pytest.param({"end_date": "2025-06-15T15:06:42"}, 1, id="up to a moment, in UTC"),
        pytest.param({"search": "FACT_SALES"}, 3, id="a part of the text in either case"),
        pytest.param({"search": "100%_"}, 0, id="signs of SQL are signs"),
        pytest.param({"min_prevented_usd": 0}, 0, id="more than nothing was prevented"),
    ],
)
def test_filters(client: TestClient, embedded: EmbeddedBroker, filters: dict[str, str | float], count: int) -> None:
    produce(embedded.bootstrap, messages_of(LOOP))
    wait_until(has(client, 3), "the read model has every decision")
    page = client.get("/api/v1/interventions", params=filters).json()
    assert (page["total"], len(page["interventions"])) == (count, count)


def test_pages_are_the_newest_first_and_without_gaps(client: TestClient, embedded: EmbeddedBroker) -> None:
    produce(embedded.bootstrap, messages_of([delete(n, f"s{n % 3}", f"table=t{n // 9}") for n in range(27)]))
    ready = client.get("/api/v1/sessions")
    wait_until(lambda: client.get("/api/v1/sessions").json()["total"] == 3, "three sessions")
    total = 0

    def settled() -> bool:
        nonlocal total
        before, total = total, client.get("/api/v1/interventions").json()["total"]
        return bool(total > 3 and before == total)

    wait_until(settled, "all interventions")
    pages = [client.get("/api/v1/interventions", params={"skip": n, "limit": 2}).json() for n in range(0, total, 2)]
    listed = [one for page in pages for one in page["interventions"]]
    assert len({one["id"] for one in listed}) == total
    assert [one["timestamp"] for one in listed] == sorted((one["timestamp"] for one in listed), reverse=True)
    assert ready.status_code == 200


NEW = {
    "type": "hard_block",
    "outcome": "blocked",
    "action_name": "dangerous_operation",
    "description": "Attempted dangerous operation",
    "agent_id": "my-agent",
    "run_id": "run_123",
    "policy_id": "policy_456",
    "risk_level": "high",
    "estimated_cost_usd": 10.0,
    "blast_radius": "Could have corrupted user data",
    "reason": "Action blocked by safety policy",
    "original_inputs": {"target": "production"},
}
OF_SDK = {
    **{name: value for name, value in NEW.items() if name not in ("type", "description", "estimated_cost_usd")},
    "intervention_type": "hard_block",
    "action_description": "Attempted dangerous operation",
    "estimated_cost": 10.0,
    "task_id": None,
    "context": {},
    "timestamp": "2025-06-15T15:06:40+00:00",
}


def test_a_record_that_is_created_is_read_by_its_writer_counts_and_can_be_hidden(client: TestClient) -> None:
    made = client.post("/api/v1/interventions", json=NEW)
    assert made.status_code == 201, made.text
    record = made.json()
    assert {name: record[name] for name in NEW} == NEW
    assert record["cost_prevented_usd"] == 10.0
    assert client.get(f"/api/v1/interventions/{record['id']}").json() == record
    stats = client.get("/api/v1/interventions/stats").json()
    assert (stats["total_interventions"], stats["cost_prevented_usd"], stats["high_risk_blocks"]) == (1, 10.0, 1)
    assert client.delete(f"/api/v1/interventions/{record['id']}").status_code == 204
    assert client.get(f"/api/v1/interventions/{record['id']}").status_code == 404
    assert client.get("/api/v1/interventions").json()["total"] == 0
    assert client.get("/api/v1/interventions/stats").json()["total_interventions"] == 0


def test_a_number_of_more_than_64_bits_in_the_inputs_stays_what_it_is(client: TestClient) -> None:
    made = client.post("/api/v1/interventions", json={**NEW, "original_inputs": {"n": 2**70}})
    assert made.status_code == 201, made.text
    assert client.get(f"/api/v1/interventions/{made.json()['id']}").json()["original_inputs"] == {"n": 2**70}


def test_the_same_record_sent_twice_in_the_words_of_the_sdk_counts_once(client: TestClient) -> None:
    one, other = (client.post("/api/v1/interventions/", json=OF_SDK).json() for _ in range(2))
    assert one["id"] == other["id"]
    assert (one["type"], one["description"], one["estimated_cost_usd"]) == (
        "hard_block", "Attempted dangerous operation", 10.0,
    )  # fmt: skip
    assert client.get("/api/v1/interventions").json()["total"] == 1


def test_who_is_killed_is_reported_to_the_caller(client: TestClient, embedded: EmbeddedBroker) -> None:
    kill = Command(
        command_id="k1", kind=CommandKind.KILL, scope=ScopeKind.AGENT, id="cleaner", by="ada", reason="stop", time=at(9)
    )
    produce(embedded.bootstrap, messages_of([*LOOP, kill]))
    query = {"target_type": "agent", "target_id": "cleaner"}
    wait_until(lambda: client.get("/api/v1/kill-switch/check", params=query).json()["is_killed"], "the agent is killed")
    said_of = client.get("/api/v1/kill-switch/check", params={"target_type": "run", "target_id": "a"}).json()
    assert (said_of["is_killed"], said_of["code"]) == (True, "session_killed_loop_guard")
    assert not client.get("/api/v1/kill-switch/check", params={"target_type": "run", "target_id": "b"}).json()[
        "is_killed"
    ]
    assert [one["id"] for one in client.get("/api/v1/control").json()] == ["a", "cleaner"]


def test_a_session_has_its_story_in_order(client: TestClient, embedded: EmbeddedBroker) -> None:
    produce(embedded.bootstrap, messages_of([spends(0, "a", 0.5), *LOOP]))
    wait_until(has(client, 3), "the read model has every decision")
    wait_until(lambda: client.get("/api/v1/sessions", params={"state": "killed"}).json()["total"] == 1, "it is killed")
    story = client.get("/api/v1/sessions/a").json()
    assert (story["session"]["level"], story["session"]["cost_usd"], story["session"]["events"]) == ("KILL", 0.5, 5)
    assert [step["time"] for step in story["steps"]] == sorted(step["time"] for step in story["steps"])
    killed = next(step["time"] for step in story["steps"] if step["topic"] == "control")
    at_once = [step["topic"] for step in story["steps"] if step["time"] == killed]
    assert list(dict.fromkeys(at_once)) == ["actions", "detections", "interventions", "control"]
    assert client.get("/api/v1/sessions/none").status_code == 404


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        pytest.param(Role.VIEWER, ["GET /api/v1/interventions"], id="a viewer looks"),
        pytest.param(Role.AGENT, ["GET /api/v1/kill-switch/check", "POST /api/v1/interventions"], id="an agent tells"),
        pytest.param(
            Role.OPERATOR,
            [
                "GET /api/v1/interventions",
                "GET /api/v1/kill-switch/check",
                "POST /api/v1/interventions",
                "POST /api/v1/kill",
            ],
            id="an operator acts",
        ),
    ],
)
def test_what_a_role_may(client: TestClient, role: Role, allowed: list[str]) -> None:
    requests = {
        "GET /api/v1/interventions": {},
        "GET /api/v1/kill-switch/check": {"params": {"target_type": "run", "target_id": "x"}},
        "POST /api/v1/interventions": {"json": NEW},
        "POST /api/v1/kill": {"json": {"id": "x", "unknown": True, "reason": "no"}},
        "DELETE /api/v1/interventions/int_1": {},
    }
    answers = {
        what: client.request(*what.split(), headers=bearer(role), **more).status_code  # type: ignore[arg-type]
        for what, more in requests.items()
    }
    assert [what for what, status in answers.items() if status != 403] == allowed


@pytest.mark.parametrize("header", [None, "Bearer nobody's", "Basic abc", "Bearer "], ids=str)
def test_who_has_no_key_sees_nothing(client: TestClient, header: str | None) -> None:
    client.headers.pop("Authorization")
    answer = client.get("/api/v1/interventions", headers={} if header is None else {"Authorization": header})
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_kill_that_no_worker_answers_is_kept_and_says_so(client: TestClient) -> None:
    answer = client.post("/api/v1/kill", json={"id": "night-7", "unknown": True, "reason": "wrong schema"}).json()
    assert (answer["answered"], answer["state"]) == (False, None)
    wait_until(lambda: client.get("/healthz").json()["ok"], "the read model is kept up")


def test_a_console_that_comes_back_goes_on_where_it_was(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    records = messages_of(LOOP)
    half = len(records) // 2
    for number, part in enumerate((records[:half], records[half:])):
        produce(embedded.bootstrap, part)
        with serving(embedded.bootstrap, tmp_path / "model.db") as client:
            wait_until(lambda c=client: c.get("/readyz").status_code == 200, "it has caught up")  # type: ignore[misc]
            if number:
                wait_until(has(client, 3), "every decision is there once")


def test_a_request_that_no_worker_has_taken_in_yet_is_listed_and_says_so_when_it_is_answered(
    client: TestClient,
) -> None:
    response = client.post("/api/v1/approvals", json={"action_name": "transfer_funds", "run_id": "r"}).json()
    assert [one["id"] for one in client.get("/api/v1/approvals/pending").json()["approvals"]] == [response["id"]]
    answer = client.post(f"/api/v1/approvals/{response['id']}/approve", json={"reason": "well"})
    assert answer.status_code == 409
    assert "expected one that a worker has taken in" in answer.json()["detail"]
