"""`haltline status` with old events, as in a replay: the age of a stop is by the worker's clock."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import Kind
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn
from tests.interventions.test_vocabularies import decision
from tests.streams.scan.transcripts import stuck
from tests.waiting import wait_until

LONG_AGO_MS = 1_750_000_000_000
HOUR_MS = 3_600_000


def kill(session: str, decided_at: int | None) -> ControlRecord:
    return ControlRecord(
        scope=ScopeKind.SESSION, id=session, state=ControlState.KILLED, code="session_killed_loop_guard",
        reason="loops", decision_id=f"d-{session}", since=LONG_AGO_MS, decided_at=decided_at,
    )  # fmt: skip


def shown(broker: EmbeddedBroker, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--bootstrap", broker.bootstrap], env={"COLUMNS": "200"})
    assert done.exit_code in {Exit.OK, Exit.NO}, done.output
    return done.output


def test_what_stands_longest_comes_first_by_when_it_was_decided(embedded: EmbeddedBroker) -> None:
    now_ms = time.time_ns() // 1_000_000
    of_an_older_release = kill("oldest", None)
    for record in (kill("newer", now_ms - HOUR_MS), kill("older", now_ms - 3 * HOUR_MS), of_an_older_release):
        produce_confirmed(embedded.bootstrap, Topics().control, key=record.key.encode(), value=record.to_json())
    lines = [line for line in shown(embedded, "status").splitlines() if "killed" in line]
    for line, (name, age) in zip(
        lines, (("oldest", r"\d+ d"), ("older", "3 h 0 min"), ("newer", "1 h 0 min")), strict=True
    ):
        assert re.search(rf"{name}\b.* {age} ago", line), lines


@pytest.fixture
def decided(embedded: EmbeddedBroker) -> EmbeddedBroker:
    decisions: list[Decision] = [
        decision(Level.KILL, "destructive_repeat", code="session_killed_loop_guard"),
        decision(Level.ALLOW, rule=""),
        decision(Level.PAUSE, vocabulary="acgp"),
        decision(Level.PAUSE, vocabulary="of a later release"),
    ]
    producer = Producer({"bootstrap.servers": embedded.bootstrap})
    for one in decisions:
        producer.produce(Topics().interventions, key=b"s1", value=one.to_json())
    assert producer.flush(10) == 0
    return embedded


def tail(broker: EmbeddedBroker, *arguments: str) -> list[str]:
    command = ("tail", "--topic", "interventions", "--from-beginning", "--count", "4", "--bootstrap", broker.bootstrap)
    done = CliRunner().invoke(app, [*command, *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == Exit.OK, done.output
    return done.stdout.splitlines()


def test_each_decision_is_reported_in_the_vocabulary_asked_for_or_the_one_that_the_policy_chose(
    decided: EmbeddedBroker,
) -> None:
    killed, allowed, *paused = tail(decided, "--vocabulary", "agent_sentinel")
    assert '"type":"loop_detected"' in killed
    assert allowed.endswith("(no agent_sentinel record)")
    assert all('"outcome":"escalated"' in line for line in paused)
    killed, allowed, governed, unknown = tail(decided)
    assert "KILL session_killed_loop_guard at 2025-06-15 15:06 UTC: seen too often" in killed
    assert "ALLOW" in allowed
    assert 'acgp {"type":"INTERVENTION","intervention":"escalate"' in governed
    assert "PAUSE scope_creep at 2025-06-15 15:06 UTC: seen too often" in unknown


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--policy", "nowhere.yaml"], 2, "--policy: nowhere.yaml: expected a file that can be read"),
        (["--bootstrap", "127.0.0.1:1"], 3, "broker 127.0.0.1:1: expected an answer"),
    ],
    ids=["a policy that is not there", "a broker that does not answer"],
)
def test_what_it_cannot_begin_with_ends_it(options: list[str], code: int, problem: str) -> None:
    done = CliRunner().invoke(app, ["watch", "--all", *options])
    assert (done.exit_code, problem in done.stderr) == (code, True), done.output


def test_what_goes_wrong_is_printed_shown_on_the_desktop_and_published(
    tmp_path: Path, embedded: EmbeddedBroker
) -> None:
    history = tmp_path / ".claude" / "projects" / "-srv-shop" / "a.jsonl"
    history.parent.mkdir(parents=True)
    notices, program = tmp_path / "notices", tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\necho "$@" >> {notices}\n')
    program.chmod(0o755)
    environ = os.environ | {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    options = ["--notify", "desktop", "--bootstrap", embedded.bootstrap]
    command = [sys.executable, "-m", "haltline.cli", "watch", "--all", *options]
    with (
        StandIn(embedded.bootstrap) as worker,
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch,
    ):
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert "histories" in watch.stderr.readline()
        later = datetime.now(UTC) + timedelta(seconds=1)
        lines = [line | {"timestamp": later.isoformat()} for line in stuck().lines]
        history.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        first = watch.stdout.readline()
        assert " claude-code -srv-shop 11111111-2222-3333-4444-555555555555 NUDGE " in first
        assert "Hint: " in first
        wait_until(lambda: notices.exists() and "claude-code -srv-shop" in notices.read_text(), "a notice is shown")
        wait_until(lambda: worker.of(Kind.PROPOSED), "what the agent does is published")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(30) == 0, watch.stderr.read()
