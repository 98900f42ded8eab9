"""Incidents on the real Kafka, with a worker that dies in the middle: thirty trips are one row that a person closes."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.console.access.keys import Keys, Role, Who
from haltline.console.app import create_app
from haltline.console.settings import ConsoleSettings
from haltline.schemas import wire
from haltline.schemas.control import Command
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_worker, wait_until_ready
from tests.waiting import wait_until

POLICY = """
rules:
  destructive_repeat:
    settings: {window_s: 3600}
    levels: {low: PAUSE, medium: PAUSE, high: PAUSE, critical: PAUSE}
  destructive_volume: {enabled: false}
  verify_mismatch: {enabled: false}
  evasion: {enabled: false}
  error_repetition: {enabled: false}
  retry_storm: {enabled: false}
  repetition: {enabled: false}
  cycle: {enabled: false}
  stagnation: {enabled: false}
  agent_destruction: {enabled: false}
  target_destruction: {enabled: false}
  tree_destruction: {enabled: false}
  fleet_spike: {enabled: false}
"""
KEYS = {Role.VIEWER: "hl_viewer", Role.OPERATOR: "hl_operator"}


def began_ms() -> int:
    """Two minutes ago: requests expire on this clock, and a run of all tests may take longer than they wait."""
    return time.time_ns() // 1_000_000 - 120_000


def trips(session: str, first: int, last: int, t0_ms: int) -> list[ActionEvent]:
    """Deletes of the same thing, each with another argument, and what came of them."""
    events = []
    for number in range(first, last):
        call = {"session_id": session, "agent_id": "cleaner", "call_id": f"c{number}", "action": "delete_asset"}
        of = call | {"args": {"asset_id": "a", "attempt": number}, "effect": Effect.DESTRUCTIVE}
        at = t0_ms + number * 2000
        events.append(ActionEvent(event_id=f"{session}-p{number}", kind=Kind.PROPOSED, time=at, **of))
        done = {"kind": Kind.COMPLETED, "outcome": Outcome.ERROR, "error": "still there"}
        events.append(ActionEvent(event_id=f"{session}-r{number}", time=at + 1000, **call, **done))
    return events


def ended(session: str, t0_ms: int) -> ActionEvent:
    at = t0_ms + 100_000
    return ActionEvent(
        event_id=f"{session}-end", kind=Kind.SESSION_ENDED, session_id=session, agent_id="cleaner", time=at
    )


def produce(bootstrap: str, topics: Topics, events: list[ActionEvent]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for event in events:
        producer.produce(topics.actions, key=event.session_id.encode(), value=event.to_json())
    assert producer.flush(30) == 0


def haltline(kafka: LocalKafka, topics: Topics, *arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(
        app, ["incidents", *arguments, "--bootstrap", kafka.bootstrap, "--prefix", topics.prefix, "--json"]
    )
    return result.exit_code, orjson.loads(result.output)


@pytest.mark.kafka
def test_thirty_trips_are_one_incident_that_closes_with_the_session_or_by_a_person(  # noqa: PLR0915 - one story
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    t0_ms = began_ms()
    (tmp_path / "policy.yaml").write_text(POLICY)
    options = ["--prefix", kafka_topics.prefix, "--checkpoint-interval", "0.2", "--session-timeout", "6"]
    keys = Keys.of((key, Who(role.value, role)) for role, key in KEYS.items())
    settings = ConsoleSettings(
        bootstrap=kafka.bootstrap, topics=kafka_topics, keys=keys, database=f"sqlite:///{tmp_path}/model.db"
    )
    as_operator = {"Authorization": f"Bearer {KEYS[Role.OPERATOR]}"}

    with (
        Children(tmp_path) as mortal,
        Children(tmp_path) as children,
        TestClient(create_app(settings), headers=as_operator) as client,
    ):

        def work(children: Children, name: str) -> Child:
            policy = ("--policy", str(tmp_path / "policy.yaml"))
            worker = start_worker(children, kafka.bootstrap, *options, *policy, embedded=False, name=name)
            wait_until_ready(children, worker)
            return worker

        def rows(**filters: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get("/api/v1/incidents", params=filters).json()["incidents"]
            return found

        def waiting() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get("/api/v1/approvals/pending").json()["approvals"]
            return found

        first = work(mortal, "w0")
        produce(kafka.bootstrap, kafka_topics, trips("loops", 0, 20, t0_ms))
        wait_until(lambda: rows(session_id="loops"), "the incident is there")
        os.kill(first.pid, signal.SIGKILL)
        produce(kafka.bootstrap, kafka_topics, trips("loops", 20, 31, t0_ms) + trips("other", 0, 5, t0_ms))
        work(children, "w1")
        wait_until(
            lambda: [r["count"] for r in rows(session_id="loops")] == [30],
            "thirty trips are one row",
            deadline_s=60,
        )
        wait_until(lambda: len(waiting()) == 2, "each session asks once")
        (incident,) = rows(session_id="loops")
        assert (incident["state"], incident["level"]) == ("open", "PAUSE")
        assert (incident["cause"], incident["rule"]) == ("destruction", "destructive_repeat")
        assert {one["incident_id"]: one["session_id"] for one in waiting()}[incident["incident_id"]] == "loops"

        def does(word: str, of: dict[str, Any], role: Role = Role.OPERATOR, **more: str) -> Any:
            return client.post(
                f"/api/v1/incidents/{of['incident_id'][:12]}/{word}",
                json={"reason": "looking at it", **more},
                headers={"Authorization": f"Bearer {KEYS[role]}"},
            )

        assert does("acknowledge", incident, Role.VIEWER).status_code == 403
        acted = does("acknowledge", incident).json()
        assert (acted["answered"], acted["incident"]["state"]) == (True, "acknowledged")
        assert does("acknowledge", incident).status_code == 409
        assert does("assign", incident, assignee="bo").json()["incident"]["assignee"] == "bo"

        # The other one by the command line: what nobody has to decide any more goes with it.
        (other,) = rows(session_id="other")
        assert haltline(kafka, kafka_topics, "--session", "other")[1][0]["incident_id"] == other["incident_id"]
        code, result = haltline(
            kafka, kafka_topics, "resolve", other["incident_id"][:12], "--by", "ada", "--reason", "the tool is fixed"
        )
        assert (code, result["incident"]["resolution"]) == (0, "resolved_by_operator")
        wait_until(lambda: [one["session_id"] for one in waiting()] == ["loops"], "its request is closed")

        produce(kafka.bootstrap, kafka_topics, [ended("loops", t0_ms)])
        wait_until(lambda: [r["resolution"] for r in rows(session_id="loops")] == ["session_ended"], "it closes")
        wait_until(lambda: not waiting(), "nothing waits for a person")
        closed = client.get(f"/api/v1/approvals/{incident['request_id']}").json()
        assert (closed["status"], "session ended" in closed["reason"]) == ("cancelled", True)
        assert does("comment", incident).status_code == 409, "closed stays closed"
        assert not rows(open_only="true")

        revisions = client.get(f"/api/v1/incidents/{incident['incident_id']}/history").json()
        assert [one["change"] for one in revisions if one["by"]] == ["acknowledged", "assigned"]
        assert [one["change"] for one in revisions][-1] == "resolved"
        assert [one["revision"] for one in revisions] == list(range(1, len(revisions) + 1)), "none is lost or doubled"

        # A new trip is another incident.
        produce(kafka.bootstrap, kafka_topics, trips("other", 5, 7, t0_ms))
        wait_until(lambda: len(rows(session_id="other")) == 2, "another one is opened")
        assert [r["state"] for r in rows(session_id="other")] == ["open", "resolved"]

    with LogReader(kafka.bootstrap, [kafka_topics.commands]) as reader:
        acts = [wire.decode(Command, message.value()) for message in reader.to_end()]
    assert [(act.kind.value, act.by) for act in acts if act.id == "loops"] == [
        ("acknowledge", "operator"), ("assign", "operator"),
    ]  # fmt: skip
    assert [(act.kind.value, act.by, act.reason) for act in acts if act.id == "other"] == [
        ("resolve", "ada", "the tool is fixed")
    ]
