"""The sessions that a kill stops, incidents and the canary: through the command line and a real worker."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import Result

from haltline.cli.common import Exit
from haltline.interventions.agent import Guard, Refused
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader, NoSuchTopic
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.operator.blast_radius import blast_radius_of
from haltline.streams.operator.client import Operator
from haltline.streams.operator.command_factory import NotAllowed
from haltline.streams.operator.ids import NotFound
from tests.builders import at, call
from tests.interventions.agent.stand_in import StandIn
from tests.streams.commands import haltline, said
from tests.streams.running import running_worker
from tests.waiting import wait_until


def event(second: float, session: str, kind: Kind = Kind.PROPOSED, **fields: Any) -> ActionEvent:
    result = {"event_id": f"{session}@{second}", "kind": kind, "session_id": session, "time": at(second)}
    return ActionEvent.model_validate(result | fields)


EVENTS = [
    event(0, "s1", agent_id="cleaner", mission_id="m1", action="delete_asset", targets=["asset_id=a"]),
    event(1, "s2", agent_id="cleaner", action="read_asset", parent_session_id="s1"),
    event(2, "s3", agent_id="writer", action="delete_asset", parent_session_id="s2", root_session_id="s1"),
    event(3, "s4", agent_id="writer", mission_id="m1"),
    event(4, "s4", Kind.SESSION_ENDED, agent_id="writer"),
]


@pytest.mark.parametrize(
    ("scope", "scope_id", "sessions"),
    [
        (ScopeKind.SESSION, "s1", ["s3", "s2", "s1"]),
        (ScopeKind.SESSION, "s2", ["s3", "s2"]),
        (ScopeKind.SESSION, "s4", []),
        (ScopeKind.AGENT, "cleaner", ["s2", "s1"]),
        (ScopeKind.MISSION, "m1", ["s1"]),
        (ScopeKind.TOOL, "delete_asset", ["s3", "s1"]),
        (ScopeKind.TARGET, "asset_id=a", ["s1"]),
        (ScopeKind.FLEET, "*", ["s3", "s2", "s1"]),
    ],
)
def test_whom_a_kill_would_stop(scope: ScopeKind, scope_id: str, sessions: list[str]) -> None:
    assert [seen.session_id for seen in blast_radius_of(scope, scope_id, EVENTS).sessions] == sessions


def by_ada(bootstrap: str, *arguments: str) -> Result:
    return haltline(*arguments, "--by", "ada", "--reason", "so", "--bootstrap", bootstrap, "--timeout", "30")


def guard_of(bootstrap: str, session: str, agent: str) -> Guard:
    guard = Guard(session_id=session, agent_id=agent, bootstrap=bootstrap, start_budget_s=30.0)
    with guard.action("read_asset"):
        pass
    wait_until(lambda: guard.ready, f"{session} knows what stands", deadline_s=30)
    return guard


def refusal(guard: Guard) -> str | None:
    try:
        with guard.action("write_file"):
            return None
    except Refused as refused:
        return refused.code


def test_an_agents_kill_is_previewed_carried_out_and_listed_and_so_is_a_batch(system: str) -> None:
    guards = [guard_of(system, f"p{number}", "previewed") for number in (1, 2)]
    other = guard_of(system, "p3", "another")
    preview = by_ada(system, "kill", "--scope", "agent", "previewed", "--preview")
    assert (preview.exit_code, "this would stop 2 sessions of 1 agent" in preview.output) == (Exit.OK, True)
    assert refusal(guards[0]) is None
    killed = by_ada(system, "kill", "--scope", "agent", "previewed", "--until-stopped", "--json")
    assert killed.exit_code == Exit.OK, killed.output
    document = orjson.loads(killed.stdout)
    assert (set(document["stopped_ms"]), document["silent"]) == ({"p1", "p2"}, [])
    assert [refusal(guard) for guard in (*guards, other)] == ["agent_killed_by_operator"] * 2 + [None]
    released = by_ada(system, "reset", "--scope", "agent", "previewed", "--only", "p1")
    assert released.exit_code == Exit.OK, released.output
    with guard_of(system, "p1", "previewed") as again:
        assert refusal(again) is None
    assert refusal(guards[1]) == "agent_killed_by_operator"
    for guard in (*guards, other):
        guard.close()
    declared = by_ada(system, "batch", "bulk-1", "--max-deletes", "40", "--targets", "asset_id=stg_*")
    assert declared.exit_code == Exit.OK, declared.output
    with Guard(session_id="bulk-1", bootstrap=system, mode="blocking", budget_s=30.0, start_budget_s=30.0) as guard:
        for number in range(4):
            with guard.action("delete_asset", targets=[f"asset_id=stg_{number}"]):
                pass
    done = haltline("batches", "--json", "--bootstrap", system)
    (batch,) = [b for b in orjson.loads(done.stdout) if b["session_id"] == "bulk-1"]
    assert (batch["by"], batch["used"], batch["batch"]["max_deletes"]) == ("ada", 4, 40)


def test_many_trips_are_one_incident_that_a_person_closes(system: str) -> None:
    def incidents(*arguments: str) -> tuple[int, str]:
        return said("incidents", *arguments, "--bootstrap", system)

    def rows(*arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = orjson.loads(incidents("--session", "trips", *arguments, "--json")[1])
        return found

    def act(word: str, *more: str) -> tuple[int, str]:
        return incidents(word, incident["incident_id"][:12], *more, "--by", "ada")

    for second in range(12):
        for event in call(6 * second, "delete_asset", "asset_id=a", "still there", session="trips"):
            produce_confirmed(system, Topics().actions, key=b"trips", value=event.to_json())
    wait_until(lambda: any(row["count"] > 3 for row in rows()), "the trips are counted")
    (incident,) = [row for row in rows() if row["level"] == "KILL"]
    assert (incident["state"], incident["agent_id"]) == ("open", "agent")
    code, shown = incidents("--agent", "agent")
    assert (code, incident["incident_id"][:8] in shown) == (Exit.NO, True)
    assert act("acknowledge", "--reason", "looking at it")[0] == Exit.OK
    again, why = act("acknowledge", "--reason", "looking at it")
    assert again != Exit.OK, why
    code, answer = act("assign", "bo", "--reason", "owns the table", "--json")
    assert (code, orjson.loads(answer)["incident"]["assignee"]) == (Exit.OK, "bo")
    assert act("comment", "restored from the backup of noon")[0] == Exit.OK
    code, answer = act("resolve", "--reason", "the tool is fixed", "--json")
    assert (code, orjson.loads(answer)["incident"]["resolution"]) == (Exit.OK, "resolved_by_operator")
    code, shown = incidents("show", incident["incident_id"])
    assert (code, "resolved_by_operator" in shown, "assigned to bo" in shown) == (Exit.OK, True, True)
    history = orjson.loads(incidents("show", incident["incident_id"], "--json")[1])
    assert [one["change"] for one in history if one.get("by")] == ["acknowledged", "assigned", "commented", "resolved"]
    assert [one["revision"] for one in history] == list(range(1, len(history) + 1)), "none is lost or doubled"
    assert incident["incident_id"] not in {row["incident_id"] for row in rows()}
    assert incident["incident_id"] in {row["incident_id"] for row in rows("--all")}


def test_it_is_killed_acknowledged_and_leaves_nothing_standing(system: str) -> None:
    before = {record.key for record in Operator(system).in_force()}
    done = haltline("canary", "--json", "--within", "60s", "--bootstrap", system)
    assert done.exit_code == Exit.OK, done.output
    flight = orjson.loads(done.stdout)
    assert (flight["well"], flight["attempts"], flight["problem"]) == (True, 3, "")
    assert {record.key for record in Operator(system).in_force()} == before


def test_of_workers_that_stop_nothing_it_says_so(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap, lambda _: Level.ALLOW):
        done = haltline("canary", "--within", "60s", "--bootstrap", embedded.bootstrap)
    assert done.exit_code == Exit.NO
    assert "expected a kill within 10 identical deletes" in done.stderr


TOPICS = Topics()
SESSION = ScopeKind.SESSION
KILL, RESET = CommandKind.KILL, CommandKind.RESET


@pytest.fixture
def operator(system: str) -> Operator:
    return Operator(system, answer_within_s=30.0)


def commands(bootstrap: str, key: str) -> list[bytes | None]:
    with LogReader(bootstrap, [TOPICS.commands]) as reader:
        return [message.value() for message in reader.to_end() if message.key() == key.encode()]


def a_decision(decision_id: str, session_id: str, detector: str = "destructive_repeat") -> Decision:
    return Decision(
        decision_id=decision_id, session_id=session_id, event_id="e1", time=1_790_000_000_000, level=Level.BLOCK,
        code="loop_detected", reason="3 deletes", detector=detector,
    )  # fmt: skip


def test_a_label_finds_the_session_of_its_decision(system: str, operator: Operator) -> None:
    given = a_decision("d-label-1", "label-1").to_json()
    produce_confirmed(system, TOPICS.interventions, key=b"label-1", value=given)
    answer = operator.label(operator.decision("d-label"), "false_alarm", by="ada", reason="was the nightly clean-up")
    assert answer.answered
    with pytest.raises(NotFound, match="decision not found: d-none"):
        operator.decision("d-none")
    killed = operator.command(KILL, SESSION, "label-2", by="ada", reason="loops").after
    assert killed is not None
    with pytest.raises(NotAllowed, match=r"expected the decision of a rule.*haltline missed label-2 --rule RULE"):
        operator.label(operator.decision(killed.decision_id[:16]), "confirmed", by="ada", reason="checked")
    assert len(commands(system, "label-2")) == 1, "no label was sent"
    command = answer.command
    assert (command.id, command.decision_id, command.label) == ("label-1", "d-label-1", "false_alarm")


def test_what_may_not_be_commanded_is_refused_and_never_sent(system: str, operator: Operator) -> None:
    by_ada: dict[str, Any] = {"by": "ada", "reason": "loops"}
    too_long = timedelta(hours=8, seconds=1)
    command, declare = operator.command, operator.declare_batch
    refused: dict[str, Callable[[], object]] = {
        "reason: expected a text that says it": lambda: command(RESET, SESSION, "never", by="ada", reason="  "),
        "by: expected a text": lambda: command(KILL, SESSION, "never", by="", reason="loops"),
        "id: expected a text": lambda: command(KILL, SESSION, "", **by_ada),
        r"expected the id \* with the scope fleet": lambda: command(KILL, ScopeKind.FLEET, "never", **by_ada),
        "up to 8:00:00, got 8:00:01": lambda: declare("never", max_deletes=1, lasts=too_long, **by_ada),
        "expected one of confirmed, false_alarm": lambda: operator.label(a_decision("d1", "never"), "no", **by_ada),
    }
    for says, act in refused.items():
        with pytest.raises(NotAllowed, match=says):
            act()
    assert commands(system, "never") == []


def test_without_a_worker_the_command_is_kept_and_carried_out_later(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    hasty = Operator(embedded.bootstrap, answer_within_s=0.5)
    assert not hasty.command(KILL, SESSION, "later", by="ada", reason="loops").answered
    declared = hasty.declare_batch("later", max_deletes=1, lasts=timedelta(hours=1), by="ada", reason="clean-up")
    assert not declared.answered
    assert len(commands(embedded.bootstrap, "later")) == 2
    assert sum(partition.lag_records for partition in hasty.lag()) == 2
    assert hasty.in_force() == []
    with pytest.raises(NoSuchTopic, match=r"topic other\.control: expected one that is there"):
        Operator(embedded.bootstrap, topics=Topics("other.")).in_force()
    with running_worker(embedded.bootstrap, tmp_path):
        wait_until(lambda: [record.id for record in hasty.in_force()] == ["later"], "the kill stands")
