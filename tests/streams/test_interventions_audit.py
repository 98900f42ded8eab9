"""What the audit table tells of interventions: records, the whole report of a stop, labels and suggestions."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.cli.common import Exit
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.replay.label_precision import by_rule, recorded, suggest
from tests.builders import call, event
from tests.streams.commands import haltline
from tests.streams.learning.recorded import LabelledLog
from tests.streams.replay.recorded import label_of

TOPICS = Topics()
OTHERS = ("spend_velocity", "budget", "step_review")
PRICES = {"prices": [{"action": "delete_*", "usd": 3}]}
PRICED = Policy.model_validate({"rules": {rule: {"enabled": False} for rule in OTHERS}, "interventions": PRICES})


class Table(LabelledLog):
    """The audit table of a log in which each decision is delivered twice, as may be."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        super().__init__(policy)
        self.uri = folder / "audit"

    def write(self) -> "Table":
        for one in list(self.log.decided()):
            self.log.send(one.topic, key=one.key, value=one.value)
        self.log.audited(self.uri)
        return self

    def ask(self, *arguments: str) -> tuple[int, str]:
        done = haltline("audit", *arguments, "--table", self.uri)
        return done.exit_code, done.stdout

    def json(self, *arguments: str) -> Any:
        code, result = self.ask(*arguments, "--json")
        assert code == Exit.OK, result
        return orjson.loads(result)


def deletes(session: str = "s1", count: int = 6, *, usage: dict[str, float] | None = None) -> list[ActionEvent]:
    """Sixty looks, then one table deleted again and again."""
    goal = {"goal": "Tidy the catalogue"}
    events = [event(0, "", session=session, kind=Kind.SESSION_STARTED, outcome=None, task=goal)]
    for number in range(60):
        looked: dict[str, Any] = {"usage": usage, "output_head": "hunter2"}
        events += call(1 + number, "look_up", f"asset_id=a{number}", session=session, **looked)
    args = {"id": "fact_sales"}
    for number in range(count):
        deleted = call(100 + 6 * number, "delete_asset", "asset_id=fact_sales", session=session, args=args)
        events += deleted if number < 2 else deleted[:1]
    return events


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Table:
    table = Table(tmp_path_factory.mktemp("stopped"), PRICED)
    table.run(deletes(usage={"input_tokens": 100, "cost_usd": 0.5}))
    return table.write()


def test_records_are_found_and_what_was_prevented_is_counted_once(stopped: Table) -> None:
    assert stopped.json("interventions", "--type", "warning")["total"] == 1
    assert stopped.json("interventions", "--outcome", "blocked", "--limit", "2")["skip"] == 2
    assert stopped.ask("interventions", "--type", "pii_blocked")[0] == Exit.NO
    assert stopped.json("interventions", "--rule", "killed")["total"] == 3
    assert stopped.json("interventions", "--action", "delete_asset", "--since", "2025-06-15")["total"] == 5
    for nothing in (("--session", "nobody"), ("--action", "look_up"), ("--until", "2025-06-15"), ("--agent", "nobody")):
        assert stopped.ask("interventions", *nothing)[0] == Exit.NO
    stats = stopped.json("interventions", "--stats")
    (advice,) = stats.pop("advice")
    assert (advice["rule"], advice["hints"], advice["stopped"]) == ("destructive_repeat", 1, 1)
    assert stats == {
        "total_interventions": 5,
        "by_type": {"warning": 1, "loop_detected": 4},
        "by_outcome": {"blocked": 4, "warned": 1},
        "cost_prevented_usd": 3.0,
        "high_risk_blocks": 3,
        "time_series": [{"date": "2025-06-15", "interventions": 5, "cost_prevented_usd": 3.0}],
        "top_blocked_actions": [{"action_name": "delete_asset", "count": 4, "cost_prevented_usd": 3.0}],
        "top_triggering_policies": [
            {"policy_id": "killed", "policy_name": "default version 1", "count": 3},
            {"policy_id": "destructive_repeat", "policy_name": "default version 1", "count": 2},
        ],
    }


def test_the_report_for_people_without_arguments_and_outputs(stopped: Table) -> None:
    code, result = stopped.ask("incident", "s1")
    assert code == Exit.OK
    assert "hunter2" not in result + stopped.ask("incident", "s1", "--json")[1]
    assert stopped.ask("labels")[0] == Exit.NO, "nothing is labelled"
    for part in ("root cause: loop_detected", "now: Keep the agent stopped", "the last 50 actions", "options: abort"):
        assert part in result, part
    assert stopped.ask("incident", "nobody")[0] == Exit.NO


# Labels


def failing(session: str, times: int) -> list[ActionEvent]:
    """One error again and again."""
    error = "ModuleNotFoundError: No module named 'x'"
    calls = (call(10 * number, "run_tests", f"module=m{number}", error, session=session) for number in range(times))
    return [event for pair in calls for event in pair]


THIRD = {"settings": {"medium": 3, "high": 4, "critical": 5}, "levels": {"medium": "PAUSE"}}
SOON = Policy.model_validate({"rules": {"error_repetition": THIRD}})


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Under a policy that stops at the third error: two sessions that went on to ten, three that would have ended."""
    table = Table(tmp_path_factory.mktemp("labelled"), SOON)
    sound = [(f"good-{number}", 3, "false_alarm") for number in (1, 2, 3)]
    for session, times, label in (("bad-1", 12, "confirmed"), ("bad-2", 10, "confirmed"), *sound):
        table.run(failing(session, times))
        first = next(d for d in table.decisions(session) if d.level >= Level.PAUSE)
        table.label(session, "confirmed", first)
        table.label(session, label, first)  # the last word counts
    table.run(failing("quiet", 2))
    table.label("quiet", "missed", rule="hallucination")
    return table.write()


def test_a_threshold_is_suggested_for_false_alarms_and_misses_and_never_applied(
    labelled: Table, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    text = SOON.model_dump_json(include={"rules"})
    policy.write_text(text)
    (suggestion,) = labelled.json("labels", "--suggest", "--policy", str(policy))["suggestions"]
    assert (suggestion["rule"], suggestion["instead_of"], suggestion["false_alarms_left"]) == ("error_repetition", 3, 0)
    assert (suggestion["confirmed_kept"], suggestion["confirmed"], suggestion["false_alarms"]) == (2, 2, 3)
    assert suggestion["policy"].startswith("rules: {error_repetition: {settings: {")
    assert policy.read_text() == text
    (of,) = by_rule([label_of("long", "missed", rule="error_repetition")], [])
    tenth = {"settings": {"medium": 9, "high": 10, "critical": 11}}
    late = Policy.model_validate({"rules": {"error_repetition": tenth}})
    found = suggest(of, {"long": recorded("long", failing("long", 6))}, late)
    assert found is not None
    assert (found.setting, found.missed_found, found.missed) == ("medium", 1, 1)
    assert found.value < 9
