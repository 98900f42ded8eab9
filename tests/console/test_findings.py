"""Findings, reports, policies, and how often a key may ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.wire import decode
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.operator.kill_trail import UNCONFIRMED
from tests.builders import some
from tests.console.serving import LOOP, bearer, console_in, serving, tell
from tests.console.topics import messages_of
from tests.schemas.test_golden import GOLDEN
from tests.streams.engine.test_groups import spends

LENIENT = "rules:\n  destructive_repeat: {enabled: false}\n  destructive_volume: {enabled: false}\n"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A console that has a session in which a loop was killed, and a sound one."""
    with console_in(tmp_path_factory.mktemp("findings")) as client:
        tell(client, messages_of([spends(0, "b", 0.5), *LOOP]))
        yield client


def test_findings_and_the_report_of_a_stop_are_listed(client: TestClient) -> None:
    listed = client.get("/api/v1/detections", params={"severity": "high", "session_id": "a"}).json()
    assert listed["total"] == len(listed["detections"]) > 0
    assert {one["session_id"] for one in listed["detections"]} == {"a"}
    assert client.get("/api/v1/detections", params={"detector": "none"}).json()["total"] == 0
    (incident,) = client.get("/api/v1/incidents", params={"level": "KILL"}).json()["incidents"]
    told = (incident["session_id"], incident["rule"], incident["report"]["severity"])
    assert told == ("a", "destructive_repeat", "critical")
    one = client.get(f"/api/v1/incidents/{incident['incident_id']}").json()
    assert one == client.get(f"/api/v1/incidents/{incident['report']['incident_id']}").json()
    assert (one | {"kill": []}, one["kill"][-1]) == (incident, UNCONFIRMED)
    actuator = decode(NotificationRecord, (GOLDEN / "notifications.actuator.json").read_bytes())
    of = {"session_id": "a", "incident_id": client.get("/api/v1/control").json()[0]["decision_id"]}
    called = actuator.model_copy(update={**of, "kill": some(actuator.kill).model_copy(update={"id": "a"})})
    tell(client, [("notifications", "a", called)])
    lines = client.get(f"/api/v1/incidents/{incident['incident_id']}").json()["kill"]
    assert lines[-1].endswith('confirmed by delete-job after 2 attempts: 200: {"status":"Success"}')
    assert client.get("/api/v1/incidents/none").status_code == 404
    report = client.get(f"/api/v1/incidents/{incident['incident_id']}/report").json()
    assert (report["session_id"], report["root_cause"]) == ("a", incident["report"]["root_cause"])
    assert [one["action"] for one in report["last_actions"]] == ["delete_asset"] * report["impact"]["actions"]
    assert report["timeline"][0]["what"] == "the session began"
    assert client.get("/api/v1/incidents", params={"start_date": "2030-01-01T00:00:00Z"}).json()["total"] == 0


def test_a_policy_is_checked_published_listed_and_shown(client: TestClient) -> None:
    checked = client.post("/api/v1/policies/check", json={"document": LENIENT}).json()
    assert (checked["name"], checked["in_vain"]) == ("default", [])
    refused = client.post("/api/v1/policies", json={"document": LENIENT, "reason": "r"}, headers=bearer(Role.OPERATOR))
    assert refused.status_code == 403
    document = {"name": "lab", "rules": {"destructive_repeat": {"mode": "warn"}}}
    made = client.post("/api/v1/policies", json={"document": document, "reason": "tried first"})
    assert (made.status_code, made.json()["name"], made.json()["version"]) == (201, "lab", 2)
    (listed,) = client.get("/api/v1/policies").json()
    assert (listed["name"], listed["by"], listed["reason"]) == ("lab", "admin ada", "tried first")
    assert client.get("/api/v1/policies/lab").json()["rules"] == document["rules"]
    older = client.post("/api/v1/policies", json={"document": {**document, "version": 1}, "reason": "back"})
    assert older.status_code == 409
    bad = client.post("/api/v1/policies", json={"document": "rules:\n  none: {}\n", "reason": "r"})
    assert (bad.status_code, "document:2" in bad.json()["detail"]) == (400, True)


def test_too_many_requests_are_answered_with_429(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    with serving(embedded.bootstrap, tmp_path) as client:
        client.app.state.context.buckets._per_s = 0.01  # type: ignore[attr-defined]
        client.app.state.context.buckets._burst = 2  # type: ignore[attr-defined]
        answers = [client.get("/api/v1/control") for _ in range(3)]
        other = client.get("/api/v1/control", headers=bearer(Role.VIEWER))
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert int(answers[2].headers["Retry-After"]) >= 1
    assert other.status_code == 200
