"""Findings, reports, and replays and backtests of the topics' records."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import cases
from tests.console.serving import LOOP, bearer, console_in, serving, tell
from tests.console.topics import messages_of
from tests.streams.engine.test_groups import spends
from tests.waiting import wait_until

LENIENT = "rules:\n  destructive_repeat: {enabled: false}\n  destructive_volume: {enabled: false}\n"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A console that has a session in which a loop was killed, and a sound one."""
    with console_in(tmp_path_factory.mktemp("jobs")) as client:
        tell(client, messages_of([spends(0, "b", 0.5), *LOOP]))
        yield client


def ran(client: TestClient, **expected: Any) -> dict[str, Any]:
    made = client.post("/api/v1/jobs", json={"since": "", **expected})
    assert made.status_code == 202, made.text
    of = made.headers["Location"]
    wait_until(lambda: client.get(of).json()["state"] not in {"waiting", "running"}, "the job has ended")
    job: dict[str, Any] = client.get(of).json()
    assert job["error"] is None
    return job


def test_findings_and_the_report_of_a_stop_are_listed(client: TestClient) -> None:
    listed = client.get("/api/v1/detections", params={"severity": "high", "session_id": "a"}).json()
    assert listed["total"] == len(listed["detections"]) > 0
    assert {one["session_id"] for one in listed["detections"]} == {"a"}
    assert client.get("/api/v1/detections", params={"detector": "none"}).json()["total"] == 0
    (incident,) = client.get("/api/v1/incidents", params={"level": "KILL"}).json()["incidents"]
    told = (incident["session_id"], incident["rule"], incident["report"]["severity"])
    assert told == ("a", "destructive_repeat", "critical")
    assert client.get(f"/api/v1/incidents/{incident['incident_id']}").json() == incident
    assert client.get(f"/api/v1/incidents/{incident['report']['incident_id']}").json() == incident
    assert client.get("/api/v1/incidents/none").status_code == 404
    report = client.get(f"/api/v1/incidents/{incident['incident_id']}/report").json()
    assert (report["session_id"], report["root_cause"]) == ("a", incident["report"]["root_cause"])
    assert [one["action"] for one in report["last_actions"]] == ["delete_asset"] * report["impact"]["actions"]
    assert report["timeline"][0]["what"] == "the session began"
    assert client.get("/api/v1/incidents", params={"start_date": "2030-01-01T00:00:00Z"}).json()["total"] == 0


def test_jobs_say_what_other_policies_would_have_done_and_replays_what_was_decided(client: TestClient) -> None:
    job = ran(client, kind="backtest", against=LENIENT)
    assert (job["state"], job["records"]) == ("done", job["of"])
    assert (job["result"]["totals"]["stopped"], job["result"]["against"]["stopped"]) == (1, 0)
    assert [(one["session_id"], one["change"]) for one in job["result"]["sessions"]] == [("a", "appears")]
    assert [one["id"] for one in client.get("/api/v1/jobs").json()][:1] == [job["id"]]
    same = ran(client, kind="replay")["result"]
    assert (same["missing"], same["extra"], same["changed"], same["same"] > 0) == (0, 0, 0, True)
    other = ran(client, kind="replay", policy=LENIENT, sessions=["a"])["result"]
    assert other["missing"] + other["changed"] > 0
    assert other["first_divergence"]["session_id"] == "a"
    response = client.post("/api/v1/jobs", json={"kind": "replay"}, headers=bearer(Role.VIEWER))
    assert response.status_code == 403
    assert client.delete("/api/v1/jobs/none").status_code == 404


@cases(
    "expected, status",
    {
        "a policy that is none": ({"kind": "backtest", "policy": "rules: {none: {}}"}, 400),
        "a moment that is none": ({"kind": "replay", "since": "tomorrow"}, 400),
        "a kind that is none": ({"kind": "guess"}, 422),
    },
)
def test_what_cannot_be_run_is_refused_at_once(client: TestClient, expected: dict[str, str], status: int) -> None:
    assert client.post("/api/v1/jobs", json=expected).status_code == status


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
