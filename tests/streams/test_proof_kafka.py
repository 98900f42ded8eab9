"""On the real Kafka, with the worker killed in the middle: a kill that nobody acknowledges, a call that waits."""

import os
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from haltline.interventions.agent import Guard, Refused
from haltline.schemas import wire
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.operator.approval_client import ApprovalClient
from haltline.streams.operator.client import Operator
from tests.waiting import wait_until

POLICY = """
rules:
  destructive_repeat: {levels: {low: PAUSE, medium: PAUSE}, settings: {window_s: 3600}}
operations: {kill_ack_s: 2, kill_issues: 2}
"""


def worker_of(children: Children, kafka: LocalKafka, topics: Topics, policy: Path, name: str) -> Child:
    options = ("--prefix", topics.prefix, "--policy", str(policy), "--checkpoint-interval", "0.2")
    worker = start_worker(children, kafka.bootstrap, *options, embedded=False, name=name)
    wait_until_ready(children, worker)
    return worker


def said_of(kafka: LocalKafka, topics: Topics, session: str) -> list[Decision]:
    with LogReader(kafka.bootstrap, [topics.interventions]) as reader:
        decisions = [wire.decode(Decision, message.value()) for message in reader.to_end()]
    return [decision for decision in decisions if decision.session_id == session]


@pytest.mark.kafka
def test_deadlines_and_requests_outlive_the_worker(kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    group = kafka_topics.prefix.removesuffix(".")
    operator = Operator(kafka.bootstrap, topics=kafka_topics, group=group, answer_within_s=60)
    inbox = ApprovalClient(kafka.bootstrap, topics=kafka_topics, group=group, answer_within_s=60)
    actual: Future[str] = Future()
    guard = Guard(
        session_id="waits",
        bootstrap=kafka.bootstrap,
        topic_prefix=kafka_topics.prefix,
        mode="blocking",
        budget_s=60.0,
        start_budget_s=60.0,
    )

    def delete() -> str:
        try:
            with guard.action("delete_asset", args={"asset_id": "a"}, targets=["asset_id=a"]):
                return "executed"
        except Refused as refused:
            return refused.code

    (tmp_path / "first").mkdir()
    with Children(tmp_path / "first") as children:
        first = worker_of(children, kafka, kafka_topics, policy, "first")
        # A session whose side publishes, and does not listen.
        now_ms = time.time_ns() // 1_000_000
        deaf = ActionEvent(event_id="e1", kind=Kind.PROPOSED, session_id="deaf", time=now_ms, action="read_asset")
        produce_confirmed(kafka.bootstrap, kafka_topics.actions, key=b"deaf", value=deaf.to_json())
        wait_until(lambda: sum(p.lag_records for p in operator.lag()) == 0, "it is processed", deadline_s=60)
        assert delete() == "executed"
        threading.Thread(target=lambda: actual.set_result(delete()), daemon=True).start()
        wait_until(inbox.pending, "a call waits for a person", deadline_s=60)
        assert operator.kill(ScopeKind.SESSION, "deaf", by="ada", reason="so").answered
        wait_until(lambda: sum(p.lag_records for p in operator.lag()) == 0, "all is committed", deadline_s=60)
        os.kill(first.pid, signal.SIGKILL)

    (tmp_path / "second").mkdir()
    with Children(tmp_path / "second") as children:
        worker_of(children, kafka, kafka_topics, policy, "second")
        wait_until(
            lambda: any(d.flag for d in said_of(kafka, kafka_topics, "deaf")), "an incident is told", deadline_s=60
        )
        (request,) = inbox.pending()
        inbox.answer(CommandKind.APPROVE, request.approval.request_id, by="ada", reason="it is a copy")
        assert actual.result(60) == "executed"
        guard.close()
        (record,) = [r for r in operator.standing() if r.id == "deaf"]
    kills = [d for d in said_of(kafka, kafka_topics, "deaf") if d.level is Level.KILL]
    assert [("issued" in d.values, d.flag) for d in kills][-2:] == [(True, False), (True, True)]
    assert (record.stopped_at, record.issued) == (None, 2)
    assert record.escalated_at is not None
