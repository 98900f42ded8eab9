"""What an operator does over HTTP reaches a real worker and a real agent's guard."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from haltline.console.app import create_app
from haltline.console.auth import Keys, Role, Who
from haltline.console.settings import ConsoleSettings
from haltline.schemas.topics import Topics
from haltline.streams.broker import EmbeddedBroker
from tests.console.databases import database
from tests.console.test_api import KEYS, bearer
from tests.streams.running import running_worker
from tests.streams.test_inbox import PATIENT, delete, guard_of, in_background
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, TestClient]]:
    folder = tmp_path_factory.mktemp("operators")
    (folder / "policy.yaml").write_text(PATIENT)
    keys = Keys.of((key, Who(f"{role} ada", role)) for role, key in KEYS.items())
    with EmbeddedBroker() as broker:
        broker.ensure_topics(Topics())
        with running_worker(broker.bootstrap, folder, "--policy", str(folder / "policy.yaml")):
            settings = ConsoleSettings(
                bootstrap=broker.bootstrap, keys=keys, database=database(folder), answer_within_s=30
            )
            with TestClient(create_app(settings), headers=bearer(Role.OPERATOR)) as client:
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
    ("word", "came", "status"),
    [
        pytest.param("approve", "executed", "used", id="what is approved runs"),
        pytest.param("reject", "approval_rejected", "rejected", id="what is rejected does not"),
    ],
)
def test_an_answer_reaches_the_call_that_waits(
    system: tuple[str, TestClient], word: str, came: str, status: str
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
        assert waits.result(30) == came
        poll = f"/api/v1/approvals/{request['id']}"
        wait_until(lambda: client.get(poll).json()["status"] == status, f"the request is {status}")
    listed = client.get("/api/v1/approvals", params={"status": status}).json()
    assert request["id"] in [one["id"] for one in listed["approvals"]]
    outcome = {"approve": "approved_after_review", "reject": "rejected_after_review"}[word]
    records = client.get("/api/v1/interventions", params={"run_id": session, "outcome": outcome}).json()
    assert records["total"] >= 1


def test_a_request_that_was_answered_cannot_be_answered_again(system: tuple[str, TestClient]) -> None:
    bootstrap, client = system
    with guard_of(bootstrap, "s-again") as guard:
        delete(guard)
        waits = in_background(guard)
        request = waiting(client, "s-again")
        client.post(f"/api/v1/approvals/{request['id']}/reject", json={"reason": "no"})
        assert waits.result(30) == "approval_rejected"
    again = client.post(f"/api/v1/approvals/{request['id']}/approve", json={"reason": "yes"})
    assert again.status_code == 409
    assert "wanted one that is open, came one that is rejected" in again.json()["detail"]
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
