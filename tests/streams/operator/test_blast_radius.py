"""Whom a kill would stop, and whom it stopped."""

from typing import Any

import orjson
import pytest
from typer.testing import Result

from haltline.cli.common import Exit
from haltline.interventions.agent import Guard, Refused
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.streams.operator.blast_radius import blast_radius_of
from haltline.streams.operator.client import Operator
from haltline.streams.operator.command_factory import NotAllowed
from tests.builders import at
from tests.streams.commands import haltline
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


def test_an_agents_kill_is_previewed_carried_out_and_listed(system: str) -> None:
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


def test_the_fleet_takes_two_operators(system: str) -> None:
    operator = Operator(system, answer_within_s=30)
    first = operator.command(CommandKind.KILL, ScopeKind.FLEET, "*", by="ada", reason="all of it")
    assert (first.second_wanted, first.after) == (True, None)
    assert operator.command(CommandKind.KILL, ScopeKind.FLEET, "*", by="ada", reason="again").second_wanted
    second = operator.command(CommandKind.KILL, ScopeKind.FLEET, "*", by="bo", reason="yes, all of it")
    assert second.after is not None
    assert (second.after.key, second.after.by) == ("fleet:*", "bo")
    with pytest.raises(NotAllowed, match="expected one that is not killed"):
        operator.command(CommandKind.CONTAIN, ScopeKind.FLEET, "*", by="ada", reason="softer")
    assert operator.command(CommandKind.RESET, ScopeKind.FLEET, "*", by="ada", reason="over").answered


def test_of_a_declared_batch_it_is_known_how_much_is_used(system: str) -> None:
    declared = by_ada(system, "batch", "bulk-1", "--max-deletes", "40", "--targets", "asset_id=stg_*")
    assert declared.exit_code == Exit.OK, declared.output
    with Guard(session_id="bulk-1", bootstrap=system, mode="blocking", budget_s=30.0, start_budget_s=30.0) as guard:
        for number in range(4):
            with guard.action("delete_asset", targets=[f"asset_id=stg_{number}"]):
                pass
    done = haltline("batches", "--json", "--bootstrap", system)
    (batch,) = [b for b in orjson.loads(done.stdout) if b["session_id"] == "bulk-1"]
    assert (batch["by"], batch["used"], batch["batch"]["max_deletes"]) == ("ada", 4, 40)
