"""The console as its own process, and the responses of its routes for the pages."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from fastapi.testclient import TestClient

from haltline.schemas.control import Feedback, Stage
from haltline.schemas.decisions import ApprovalState, Decision, Level
from haltline.schemas.topics import Topics
from haltline.streams.kafka.topics import create_topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.notify.links import OPENS_AT, LinkKey
from tests.builders import at
from tests.console.browser.scene import ASKS, waits
from tests.console.serving import LOOP, serving
from tests.console.topics import messages_of, produce
from tests.waiting import wait_until

HOUR_MS = 3_600_000


@pytest.fixture
def client(embedded: EmbeddedBroker, tmp_path: Path) -> Iterator[TestClient]:
    with serving(embedded.bootstrap, tmp_path) as client:
        yield client


LINK_KEY = LinkKey("k" * 32)
TOMORROW_MS = time.time_ns() // 1_000_000 + 24 * HOUR_MS


LINKS = {
    "a link of ours": (LINK_KEY.token('apr/"1', TOMORROW_MS), 200, "url=/approvals/apr%2F%221"),
    "one whose time is over": (LINK_KEY.token("apr", 1_000), 403, "one that has expired"),
    "one of another key": (LinkKey("j" * 32).token("apr", TOMORROW_MS), 403, "got another"),
}


def test_a_link_to_an_approval_is_followed_when_it_was_signed(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    with serving(embedded.bootstrap, tmp_path, link_key=LINK_KEY) as client:
        for what, (token, status, text) in LINKS.items():
            answer = client.get(OPENS_AT, params={"token": token}, headers={"Authorization": ""})
            assert (answer.status_code, text in answer.text) == (status, True), (what, answer.text)


def test_a_console_ends_although_a_page_listens_and_signs_its_pages_in(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    arguments = ["--bootstrap", embedded.bootstrap, "--database", f"sqlite:///{tmp_path}/model.db", "--port", "0"]
    arguments += ["--metrics-port", "0"]
    command = [sys.executable, "-m", "haltline.cli", "console", *arguments]
    console = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert console.stdout is not None
        lines = iter(console.stdout.readline, "")
        key = next(found[0] for line in lines if (found := re.search(r"hl_\S+", line)))
        port = next(found[1] for line in lines if (found := re.search(r"serves /metrics on port (\d+)", line)))
        assert "haltline_build_info" in httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert httpx.get(f"http://127.0.0.1:{port}/api/v1/fleet").status_code == 404
        address = next(line.strip() for line in lines if line.startswith("http"))
        assert httpx.get(f"{address}/metrics").status_code == 401
        with httpx.Client(base_url=address, timeout=30, follow_redirects=True) as browser:
            assert browser.post("/sign-in", data={"key": key}).url.path == "/fleet"
            with browser.stream("GET", "/api/v1/events") as stream:
                chunks = stream.iter_text()
                assert "event: hello" in next(chunks)
                produce(embedded.bootstrap, messages_of(LOOP))
                assert any("event: decision" in chunk for chunk in chunks)
                console.terminate()
                assert "event: missed" not in "".join(chunks)
        assert console.wait(30) == 0
        assert "/sign-in#token=" not in console.stdout.read(), "a pipe is no terminal"
    finally:
        console.kill()
        console.wait()


@contextmanager
def console_on(
    kafka: LocalKafka, topics: Topics, tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A console process, and an admin's client; its log is its standard error."""
    arguments = ["--bootstrap", kafka.bootstrap, "--prefix", topics.prefix, "--port", "0"]
    command = [
        sys.executable,
        "-m",
        "haltline.cli",
        "console",
        *arguments,
        "--database",
        f"sqlite:///{tmp_path}/model.db",
    ]
    console = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert console.stdout is not None
        lines = iter(console.stdout.readline, "")
        key = next(found[0] for line in lines if (found := re.search(r"hl_\S+", line)))
        address = next(line.strip() for line in lines if line.startswith("http"))
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
            yield console, client
    finally:
        console.kill()
        console.communicate()


def test_a_console_ends_when_a_topic_is_recreated_and_the_next_one_reads_it_as_a_new_topic(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    admin, actions = AdminClient({"bootstrap.servers": kafka.bootstrap}), kafka_topics.actions

    def events(client: httpx.Client) -> int:
        found: int = client.get("/api/v1/fleet").json()["events"]
        return found

    with console_on(kafka, kafka_topics, tmp_path) as (console, client):
        produce(kafka.bootstrap, messages_of(LOOP), kafka_topics)
        wait_until(lambda: events(client) == len(LOOP), "it has the events")
        admin.delete_topics([actions])[actions].result()
        wait_until(lambda: actions not in admin.list_topics(timeout=10).topics, "the topic is deleted")
        create_topics(admin, kafka_topics, 1, 1)
        _, errors = console.communicate(timeout=120)
        assert console.returncode == 1
        assert f"haltline: topic {actions} was recreated: expected the one with id" in errors
        assert "Traceback" not in errors
    with console_on(kafka, kafka_topics, tmp_path) as (_, client):
        wait_until(lambda: client.get("/readyz").status_code == 200, "it has read the topics")
        assert events(client) == 0


def test_the_fleet_is_counted_who_stopped_is_reported_and_a_session_is_made_again_with_how_close_rules_were(
    client: TestClient, embedded: EmbeddedBroker
) -> None:
    records = messages_of(LOOP)
    kill = next(one for _, _, one in records if isinstance(one, Decision) and one.level is Level.KILL)
    of_it = {"session_id": "a", "decision_id": kill.decision_id, "time": at(9), "decided_at": at(8)}
    stopped = Feedback.model_validate({"feedback_id": "f1", "stage": Stage.STOPPED, **of_it})
    produce(embedded.bootstrap, [*records, ("feedback", "a", stopped)])
    wait_until(lambda: client.get("/api/v1/kill/stops", params={"decision_id": kill.decision_id}).json(), "it stopped")
    assert client.get("/api/v1/kill/stops", params={"decision_id": kill.decision_id}).json() == [
        {"session_id": "a", "agent_id": "unknown", "time_ms": at(9), "took_ms": 1000}
    ]
    wait_until(lambda: client.get("/api/v1/fleet").json()["standing"] == {"killed": 1}, "it is killed")
    found = client.get("/api/v1/fleet").json()
    assert (found["sessions"], found["events"], found["live"], found["trips_24h"]) == (1, len(LOOP), 0, 0)
    wait_until(lambda: len(client.get("/api/v1/replay", params={"session_id": "a"}).json()["frames"]) == 4, "all of it")
    frames = client.get("/api/v1/replay", params={"session_id": "a"}).json()["frames"]
    assert [frame["killed"] for frame in frames] == [False, False, True, True]
    near = [frame["near"].get("destructive_repeat", 0.0) for frame in frames]
    assert near[:3] == sorted(near[:3])
    assert near[2] >= 1.0
    assert [len(frame["irreversible"]) for frame in frames] == [1, 1, 1, 1]
    assert client.get("/api/v1/replay", params={"session_id": "none"}).status_code == 404


def test_what_cannot_be_answered_says_what_was_expected(client: TestClient) -> None:
    assert client.get(OPENS_AT, params={"token": LINK_KEY.token("apr", TOMORROW_MS)}).status_code == 404
    answer = client.post("/api/v1/approvals/batch", json={"ids": ["x", "y", "x"], "word": "approve", "reason": "ok"})
    refused = dict.fromkeys(("x", "y"), "not found among those of the last day")
    assert answer.json() == {"answered": [], "late": [], "refused": refused}
    assert client.get("/api/v1/audit").json() == {"table": None, "signed": False}
    for answer in (client.get("/api/v1/audit/records"), client.post("/api/v1/audit/verify")):
        assert (answer.status_code, "--audit-table" in answer.json()["detail"]) == (404, True)


def test_what_was_answered_does_not_crowd_out_what_waits(client: TestClient, embedded: EmbeddedBroker) -> None:
    records = messages_of([event for number in range(3) for event in waits(number).events], ASKS)
    requests = [one for _, _, one in records if isinstance(one, Decision) and one.approval is not None]
    assert len(requests) == 3
    answers = [
        one.model_copy(update={"approval": one.approval.model_copy(update={"state": ApprovalState.APPROVED})})
        for one in requests[:2]
        if one.approval is not None
    ]
    produce(embedded.bootstrap, [*records, *(("interventions", one.session_id, one) for one in answers)])
    wait_until(lambda: client.get("/api/v1/approvals", params={"status": "approved"}).json()["total"] == 2, "answered")
    for path, query in (("/api/v1/approvals/pending", {"limit": 1}), ("/api/v1/approvals", {"open_only": True})):
        found = client.get(path, params=query).json()
        assert (found["total"], [one["session_id"] for one in found["approvals"]]) == (1, [requests[2].session_id])
