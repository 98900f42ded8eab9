"""What an operator does over HTTP reaches a real worker and a real agent's guard."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
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
