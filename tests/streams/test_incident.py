"""The whole report of an incident, from the audit table; and labels by rule."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.cli.common import Exit
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.streams.audit.query import open_query
from tests.builders import at, call
from tests.streams.commands import haltline, said
from tests.streams.learning.recorded import LabelledLog
from tests.streams.replay.recorded import LiveLog, a_night, deletes


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_night().audited(tmp_path_factory.mktemp("night") / "audit")


def report(table: Path, name: str) -> dict[str, Any]:
    code, output = said("incidents", "report", name, "--table", table, "--json")
    assert code == Exit.OK, output
    document: dict[str, Any] = orjson.loads(output)
    return document


def test_the_report_of_a_killed_session_is_whole_and_the_same_by_its_incident(table: Path) -> None:
    whole = report(table, "night-1")
    assert whole["root_cause"].startswith("loop_detected by delete_asset on asset_id=")
    assert [whole["timeline"][0]["what"], whole["timeline"][-1]["what"][:4]] == ["the session began", "KILL"]
    assert whole["impact"]["actions"] == len(whole["last_actions"]) > 2
    assert whole["impact"]["duration_s"] > 0
    assert {one["action"] for one in whole["last_actions"]} == {"delete_asset"}
    assert all(whole[part] for part in ("contributing_factors", "recommendations", "recovery_options", "snapshot"))
    killed, *_ = open_query(table).rows(
        "SELECT event_id FROM audit WHERE topic = 'haltline.incidents' AND scope_id = 'night-1' "
        "GROUP BY event_id ORDER BY min(event_time)"
    )
    assert report(table, killed["event_id"][:8]) == whole
    code, output = said("incidents", "report", "night-1", "--table", table)
    assert code == Exit.OK
    parts = ("timeline:", "impact:", "root cause:", "now:", "ways to continue:", "actions before it:")
    assert [part for part in parts if part not in output] == []


def test_an_incident_that_did_not_end_with_a_kill_is_reported_by_its_hardest_decision(tmp_path: Path) -> None:
    policy = Policy.model_validate({"rules": {"destructive_repeat": {"levels": {"low": "NUDGE", "medium": "PAUSE"}}}})
    table = LiveLog(policy).events(deletes("s", 0, 6)).audited(tmp_path / "audit")
    (incident,) = open_query(table).rows("SELECT DISTINCT event_id FROM audit WHERE topic = 'haltline.incidents'")
    whole = report(table, incident["event_id"])
    assert whole["summary"].partition(":")[0] in {"NUDGE", "PAUSE"}
    assert (whole["session_id"], len(whole["last_actions"])) == ("s", 2)


def test_a_kill_by_an_operator_is_reported_too_and_a_session_that_was_not_stopped_is_not(tmp_path: Path) -> None:
    log = LiveLog().events(deletes("s", 0))
    log.command(Command(command_id="k", kind=CommandKind.KILL, id="s", by="ada", reason="not tonight", time=at(9)))
    table = log.audited(tmp_path / "audit")
    whole = report(table, "s")
    assert "not tonight" in whole["summary"]
    assert "not tonight" in whole["timeline"][-1]["what"]
    code, output = said("incidents", "report", "nobody", "--table", table)
    assert (code, "nobody: expected an incident with decisions" in output) == (Exit.NO, True)


def test_the_report_has_no_outputs_and_fifty_actions_at_most(tmp_path: Path) -> None:
    looks = [one for number in range(60) for one in call(number, "look_up", f"asset_id=a{number}", session="s1")]
    looks = [one.model_copy(update={"output_head": "hunter2"}) for one in looks]
    table = LiveLog().events([*looks, *deletes("s1", 66, 72, 78)]).audited(tmp_path / "audit")
    whole = report(table, "s1")
    assert ("hunter2" in orjson.dumps(whole).decode(), len(whole["last_actions"])) == (False, 50)
    assert "Keep the agent stopped" in whole["recommendations"]["immediate"][0]


def failing(session: str, times: int) -> list[ActionEvent]:
    """One error again and again."""
    error = "ModuleNotFoundError: No module named 'x'"
    calls = (call(10 * number, "run_tests", f"module=m{number}", error, session=session) for number in range(times))
    return [event for pair in calls for event in pair]


def test_labels_are_counted_by_rule_and_the_last_one_of_a_decision_counts(tmp_path: Path) -> None:
    third = {"settings": {"medium": 3, "high": 4, "critical": 5}, "levels": {"medium": "PAUSE"}}
    log = LabelledLog(Policy.model_validate({"rules": {"error_repetition": third}}))
    for session, times, label in (("bad", 12, "confirmed"), ("good-1", 3, "false_alarm"), ("good-2", 3, "false_alarm")):
        log.run(failing(session, times))
        first = next(one for one in log.decisions(session) if one.level >= Level.PAUSE)
        log.label(session, "confirmed", first)
        log.label(session, label, first)
    log.run(failing("quiet", 2))
    log.label("quiet", "missed", rule="hallucination")
    table = log.log.audited(tmp_path / "audit")
    done = haltline("audit", "labels", "--table", table, "--json")
    counts = [(one["rule"], *list(one.values())[1:]) for one in orjson.loads(done.stdout)["rules"]]
    assert counts == [("error_repetition", 1, 2, 0, 0.3333, 1.0), ("hallucination", 0, 0, 1, None, 0.0)]
    empty = LiveLog().events(deletes("s", 0)).audited(tmp_path / "empty")
    assert haltline("audit", "labels", "--table", empty).exit_code == Exit.NO
