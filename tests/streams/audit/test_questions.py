"""The ready questions, on a log that a worker has written."""

import csv
import io
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.schemas.control import Command, CommandKind, Feedback, Stage
from haltline.schemas.decisions import Decision
from haltline.streams.audit.questions import QUESTIONS
from tests.builders import at
from tests.streams.replay.recorded import TOPICS, a_night, deletes


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = a_night()
    kill, nudge = (
        next(d for r in log.decided() if (d := Decision.model_validate_json(r.value or b"")).level.value == level)
        for level in ("KILL", "NUDGE")
    )
    stopped = Feedback(
        feedback_id="f", decision_id=kill.decision_id, session_id=kill.session_id, stage=Stage.STOPPED, time=at(200),
        decided_at=kill.decided_at,
    )  # fmt: skip
    log.now_ms = at(200)
    for _ in range(2):  # delivered twice
        log.send(TOPICS.feedback, key=stopped.session_id.encode(), value=stopped.to_json())
    labels = [(kill, "false_alarm"), (kill, "confirmed"), (nudge, "false_alarm"), (nudge, "false_alarm")]
    for number, (decision, label) in enumerate(labels):
        of = {"id": decision.session_id, "decision_id": decision.decision_id, "label": label}
        by = {"command_id": f"l{number}", "by": "ada", "reason": "looked at it", "time": at(300 + number)}
        log.command(Command.model_validate({"kind": CommandKind.LABEL} | of | by))
    log.events(
        one.model_validate({**one.model_dump(), "usage": {"cost_usd": 0.25, "input_tokens": 10}})
        for one in deletes("spender", 400)
        if one.outcome is not None
    )
    return log.audited(tmp_path_factory.mktemp("night") / "audit")


def run(table: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["audit", *arguments, "--table", str(table)], env={"COLUMNS": "250"})
    return done.exit_code, done.output


def ask(table: Path, *arguments: str) -> list[dict[str, Any]]:
    code, output = run(table, "ask", *arguments, "--json")
    assert code == 0, output
    found: list[dict[str, Any]] = orjson.loads(output)
    return found


def test_every_question_can_be_asked_and_is_listed(table: Path) -> None:
    listed = run(table, "ask", "--list")[1]
    for name in QUESTIONS:
        code, output = run(table, "ask", name)
        assert (code, name in listed) == (0, True), output


def test_each_question_counts_what_it_is_about(table: Path) -> None:
    trips = ask(table, "trips")
    (killed,) = [one for one in trips if (one["detector"], one["level"]) == ("destructive_repeat", "KILL")]
    assert (killed["decisions"], killed["sessions"]) == (2, 2)
    assert {one["sessions"] for one in ask(table, "trips", "--session", "night-1")} == {1}
    assert ask(table, "trips", "--to", "2025-06-15T15:06:40Z") == []
    targets = ask(table, "targets")[:2]
    assert {one["target"]: one["findings"] for one in targets} == {"asset_id=night-1": 2, "asset_id=night-2": 2}
    (stops,) = ask(table, "stops")  # each kill once
    assert (stops["kills"], stops["acknowledged"]) == (2, 1)
    assert stops["min_ms"] == stops["median_ms"] == stops["max_ms"] > 0
    spend = ask(table, "spend")[0]
    assert (spend["agent_id"], spend["cost_usd"], spend["input_tokens"]) == ("of spender", 0.25, 10)
    (rule,) = ask(table, "precision")  # of the last label of each decision
    assert (rule["detector"], rule["confirmed"], rule["false_alarms"]) == ("destructive_repeat", 1, 1)
    assert rule["precision"] == 0.5
    assert [(one["by"], one["kind"], one["commands"]) for one in ask(table, "operators")] == [("ada", "label", 4)]


def test_answers_are_csv_too(table: Path) -> None:
    for question in (("ask", "trips"), ("story", "night-1")):
        code, output = run(table, *question, "--csv")
        head, *rows = csv.reader(io.StringIO(output))
        assert code == 0
        assert "level" in head
        assert rows
        assert all(len(row) == len(head) for row in rows)
    code, output = run(table, "query", 'SELECT "key", level FROM audit WHERE level = \'KILL\' ORDER BY "key"', "--csv")
    assert output.splitlines()[:2] == ["key,level", "night-1,KILL"]


def test_what_cannot_be_asked_is_reported(table: Path) -> None:
    for arguments, expected, text in (
        (["ask", "weather"], 2, "expected one of trips"),
        (["ask", "trips", "--from", "soon"], 2, "expected a time"),
        (["story", "nobody"], 1, "expected records of session 'nobody', got none"),
    ):
        code, output = run(table, *arguments)
        assert (code, text in output) == (expected, True), output
