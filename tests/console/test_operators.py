"""What an operator does over HTTP reaches a real worker and a real agent's guard."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.interventions.agent import Guard, Refused
from haltline.schemas.topics import Topics
from tests.cases import cases
from tests.console.serving import bearer, serving
from tests.mock_cluster import QuickBroker
from tests.streams.operator.test_approval_client import PATIENT, delete, guard_of, in_background
from tests.streams.running import running_worker
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, TestClient]]:
    folder = tmp_path_factory.mktemp("operators")
    (folder / "policy.yaml").write_text(PATIENT)
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with (
            running_worker(broker.bootstrap, folder, "--policy", str(folder / "policy.yaml")),
            serving(broker.bootstrap, folder / "model.db", answer_within_s=30) as client,
        ):
            client.headers.update(bearer(Role.OPERATOR))
            yield broker.bootstrap, client


def waiting(client: TestClient, session: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def look() -> bool:
        listed = client.get("/api/v1/approvals/pending").json()["approvals"]
        found[:] = [one for one in listed if one["session_id"] == session]
        return bool(found)

    wait_until(look, f"session {session} waits for a person")
    return found[0]


@pytest.mark.parametrize(
    ("word", "actual", "status"),
    [
        pytest.param("approve", "executed", "used", id="what is approved runs"),
        pytest.param("reject", "approval_rejected", "rejected", id="what is rejected does not"),
    ],
)
def test_an_answer_reaches_the_call_that_waits_and_is_the_last(
    system: tuple[str, TestClient], word: str, actual: str, status: str
) -> None:
    bootstrap, client = system
    session = f"s-{word}"
    with guard_of(bootstrap, session) as guard:
        assert delete(guard) == "executed"
        waits = in_background(guard)
        request = waiting(client, session)
        assert (request["action_name"], request["targets"]) == ("delete_asset", ["asset_id=a"])
        answer = client.post(f"/api/v1/approvals/{request['id']}/{word}", json={"reason": "asked the owner"}).json()
        assert answer["answered"]
        assert waits.result(30) == actual
        poll = f"/api/v1/approvals/{request['id']}"
        wait_until(lambda: client.get(poll).json()["status"] == status, f"the request is {status}")
    listed = client.get("/api/v1/approvals", params={"status": status}).json()
    assert request["id"] in [one["id"] for one in listed["approvals"]]
    outcome = {"approve": "approved_after_review", "reject": "rejected_after_review"}[word]
    records = client.get("/api/v1/interventions", params={"run_id": session, "outcome": outcome}).json()
    assert records["total"] >= 1
    again = client.post(f"/api/v1/approvals/{request['id']}/approve", json={"reason": "yes"})
    assert again.status_code == 409
    assert f"it is {status} (operator ada) and cannot be answered any more" in again.json()["detail"]
    assert client.post("/api/v1/approvals/none/approve", json={"reason": "yes"}).status_code == 404


def test_who_is_killed_over_http_is_refused_and_works_again_after_the_reset(system: tuple[str, TestClient]) -> None:
    bootstrap, client = system
    with guard_of(bootstrap, "s-kill") as guard:
        assert delete(guard) == "executed"
        killed = client.post("/api/v1/kill", json={"id": "s-kill", "reason": "wrong account"}).json()
        assert (killed["answered"], killed["state"]["state"], killed["state"]["by"]) == (True, "killed", "operator ada")
        wait_until(lambda: delete(guard, "b") != "executed", "its next call is refused")
    assert client.post("/api/v1/reset", json={"id": "s-kill", "reason": "was right"}).json()["answered"]
    with guard_of(bootstrap, "s-kill") as guard:
        assert delete(guard, "c") == "executed"


def call(guard: Guard, action: str, asset: str) -> str:
    try:
        with guard.action(action, args={"asset_id": asset}, targets=[f"asset_id={asset}"]):
            return "executed"
    except Refused as refused:
        return refused.code


@cases(
    "word, scope, name, state, actual",
    {
        "a frozen session does nothing": ("freeze", "session", "s-hold", "frozen", ["session_frozen_by_operator"] * 2),
        "a contained one only looks": (
            "contain",
            "session",
            "s-hold",
            "contained",
            ["executed", "session_contained_by_operator"],
        ),
        "a tool, for everybody": ("freeze", "tool", "tag_asset", "frozen", ["executed", "tool_frozen_by_operator"]),
    },
)
def test_what_is_held_over_http_is_refused_listed_and_lifted(
    system: tuple[str, TestClient], word: str, scope: str, name: str, state: str, actual: list[str]
) -> None:
    bootstrap, client = system
    act = {"scope": scope, "id": name, "reason": "we look at what it did"}
    assets = (f"a{number}" for number in count())  # the same call again and again would be stopped as a loop
    with guard_of(bootstrap, "s-hold") as guard:

        def calls() -> list[str]:
            asset = next(assets)
            return [call(guard, action, asset) for action in ("get_asset", "tag_asset")]

        assert calls() == ["executed", "executed"]
        reached = client.get("/api/v1/kill/preview", params={"scope": scope, "id": name}).json()
        assert [one["session_id"] for one in reached["sessions"]] == ["s-hold"]
        held = client.post(f"/api/v1/{word}", json=act).json()
        assert (held["answered"], held["state"]["state"], held["state"]["by"]) == (True, state, "operator ada")
        stands = (scope, name, state, "we look at what it did")
        wait_until(lambda: stands in standing(client), "it is in the list of what stands")
        wait_until(lambda: calls() == actual, "the agent's side obeys")
        assert client.post("/api/v1/lift", json={**act, "reason": "it was right"}).json()["answered"]
        wait_until(lambda: calls() == ["executed", "executed"], "the next call is made again")
    wait_until(lambda: stands not in standing(client), "nothing is left of it")


def standing(client: TestClient) -> list[tuple[str, str, str, str]]:
    return [(one["scope"], one["id"], one["state"], one["reason"]) for one in client.get("/api/v1/control").json()]


def test_a_kill_is_neither_softened_nor_lifted(system: tuple[str, TestClient]) -> None:
    _, client = system
    act = {"scope": "agent", "id": "cleaner-9", "unknown": True, "reason": "no"}
    assert client.post("/api/v1/kill", json=act).json()["answered"]
    answers = {word: client.post(f"/api/v1/{word}", json=act) for word in ("freeze", "contain", "lift")}
    assert {word: answer.status_code for word, answer in answers.items()} == dict.fromkeys(answers, 409)
    assert "expected one that is not killed; a reset ends a kill" in answers["lift"].json()["detail"]
    assert client.post("/api/v1/reset", json=act).json()["answered"]


@pytest.mark.parametrize("word", ["freeze", "contain", "lift"])
def test_only_an_operator_holds_and_says_why(system: tuple[str, TestClient], word: str) -> None:
    _, client = system
    act = {"id": "s-other", "reason": "why not"}
    refused = {
        role: client.post(f"/api/v1/{word}", json=act, headers=bearer(role)) for role in (Role.VIEWER, Role.AGENT)
    }
    assert {role: answer.status_code for role, answer in refused.items()} == dict.fromkeys(refused, 403)
    assert client.post(f"/api/v1/{word}", json={"id": "s-other"}).status_code == 422
    assert client.post(f"/api/v1/{word}", json={"id": "s-other", "unknown": True, "reason": " "}).status_code == 409
    assert "s-other" not in [name for _, name, _, _ in standing(client)]
