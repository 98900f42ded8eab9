"""What an operator does over HTTP reaches a real worker and a real agent's guard."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.interventions.agent import Guard, Refused
from haltline.schemas.topics import Topics
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


def test_an_answer_reaches_the_call_that_waits_and_is_the_last(system: tuple[str, TestClient]) -> None:
    bootstrap, client = system
    with guard_of(bootstrap, "s-reject") as guard:
        assert delete(guard) == "executed"
        waits = in_background(guard)
        request = waiting(client, "s-reject")
        of = f"/api/v1/approvals/{request['id']}"
        assert (request["action_name"], request["targets"]) == ("delete_asset", ["asset_id=a"])
        assert client.post(f"{of}/reject", json={"reason": "asked the owner"}).json()["answered"]
        assert waits.result(30) == "approval_rejected"
        wait_until(lambda: client.get(of).json()["status"] == "rejected", "the request is rejected")
    listed = client.get("/api/v1/approvals", params={"status": "rejected"}).json()
    assert request["id"] in [one["id"] for one in listed["approvals"]]
    asked = {"run_id": "s-reject", "outcome": "rejected_after_review"}
    assert client.get("/api/v1/interventions", params=asked).json()["total"] >= 1
    again = client.post(f"{of}/approve", json={"reason": "yes"})
    assert again.status_code == 409
    assert "it is rejected (operator ada) and cannot be answered any more" in again.json()["detail"]
    assert client.post("/api/v1/approvals/none/approve", json={"reason": "yes"}).status_code == 404


def call(guard: Guard, action: str, asset: str) -> str:
    try:
        with guard.action(action, args={"asset_id": asset}, targets=[f"asset_id={asset}"]):
            return "executed"
    except Refused as refused:
        return refused.code


def test_a_session_that_is_contained_over_http_only_looks_until_that_is_lifted(system: tuple[str, TestClient]) -> None:
    """Kills, freezes and their previews: tests/console/browser/test_acting.py."""
    bootstrap, client = system
    act = {"scope": "session", "id": "s-hold", "reason": "we look at what it did"}
    assets = (f"a{number}" for number in count())  # the same call again and again would be stopped as a loop
    with guard_of(bootstrap, "s-hold") as guard:

        def calls() -> list[str]:
            asset = next(assets)
            return [call(guard, action, asset) for action in ("get_asset", "tag_asset")]

        assert calls() == ["executed", "executed"]
        held = client.post("/api/v1/contain", json=act).json()
        assert (held["answered"], held["state"]["state"], held["state"]["by"]) == (True, "contained", "operator ada")
        stands = ("session", "s-hold", "contained", "we look at what it did")
        wait_until(lambda: stands in standing(client), "it is in the list of what stands")
        wait_until(lambda: calls() == ["executed", "session_contained_by_operator"], "the agent's side obeys")
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
    for field, status in (({"probation_actions": 10_001}, 422), ({"session": "of-nobody"}, 404)):
        assert client.post("/api/v1/reset", json={**act, **field}).status_code == status
    assert client.post("/api/v1/reset", json={**act, "probation_actions": 3}).json()["answered"]


def test_only_an_operator_holds_and_says_why(system: tuple[str, TestClient]) -> None:
    _, client = system
    act = {"id": "s-other", "reason": "why not"}
    for path in ("/api/v1/freeze", "/api/v1/contain", "/api/v1/lift"):
        for role in (Role.VIEWER, Role.AGENT):
            assert client.post(path, json=act, headers=bearer(role)).status_code == 403
        assert client.post(path, json={"id": "s-other"}).status_code == 422
        assert client.post(path, json={"id": "s-other", "unknown": True, "reason": " "}).status_code == 409
    assert "s-other" not in [name for _, name, _, _ in standing(client)]
