"""What operators do to an agent, a mission, a tool, a target, the fleet, or to hold a session."""

from typing import Any

import pytest

from haltline.interventions.control.freeze import on_command as hold
from haltline.interventions.control.scope_commands import on_command
from haltline.interventions.decide.cross_session import ScopeStatus
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.session_control import Kill, Probation, SessionControl
from haltline.schemas.control import Command, CommandKind, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.policy import Operations, Policy

T0_MS = 1_750_000_000_000
KILL, RESET, FREEZE, CONTAIN, LIFT = (
    CommandKind.KILL,
    CommandKind.RESET,
    CommandKind.FREEZE,
    CommandKind.CONTAIN,
    CommandKind.LIFT,
)


class Scope:
    def __init__(self, scope: ScopeKind = ScopeKind.AGENT, scope_id: str = "cleaner", **operations: Any) -> None:
        self.scope, self.id = scope, scope_id
        self.standing = ScopeStatus()
        self.policy = Policy(operations=Operations(**operations))

    def says(self, kind: CommandKind, second: float = 0, by: str = "ada", **result: Any) -> ControlEffects:
        command = Command(
            command_id=f"{kind}{second}{by}",
            kind=kind,
            scope=self.scope,
            id=self.id,
            by=by,
            reason="so",
            time=T0_MS + round(second * 1000),
            **result,
        )
        return on_command(self.standing, command, self.policy)

    @property
    def state(self) -> str | None:
        return None if self.standing.stands is None else self.standing.stands.state


@pytest.mark.parametrize(
    ("commands", "state"),
    [
        pytest.param([KILL], "killed", id="killed"),
        pytest.param([KILL, RESET], None, id="reset"),
        pytest.param([FREEZE], "frozen", id="frozen"),
        pytest.param([FREEZE, LIFT], None, id="lifted"),
        pytest.param([CONTAIN, FREEZE], "frozen", id="held harder"),
        pytest.param([FREEZE, CONTAIN], "contained", id="held less, by an operator"),
        pytest.param([KILL, FREEZE], "killed", id="a kill is not softened by a freeze"),
        pytest.param([KILL, CONTAIN], "killed", id="nor by containment"),
        pytest.param([KILL, LIFT], "killed", id="nor lifted"),
        pytest.param([CONTAIN, KILL], "killed", id="what is contained can be killed"),
        pytest.param([FREEZE, RESET], None, id="a reset ends all"),
    ],
)
def test_what_stands_after_what_operators_say(commands: list[CommandKind], state: str | None) -> None:
    scope = Scope()
    for number, kind in enumerate(commands):
        scope.says(kind, number)
    assert scope.state == state


def test_a_second_kill_leaves_the_first_ones_record() -> None:
    scope = Scope()
    first = scope.says(KILL, 1, "ada")
    assert first.control is not None
    assert (first.control.key, first.control.by, first.control.code) == (
        "agent:cleaner",
        "ada",
        "agent_killed_by_operator",
    )
    assert scope.says(KILL, 2, "bo") == NOTHING


def test_one_session_is_released_and_the_rest_stays_killed() -> None:
    scope = Scope()
    scope.says(KILL)
    result = scope.says(RESET, 1, session="s1")
    assert result.control is not None
    assert (result.control.state, result.control.spared, result.released) == (ControlState.KILLED, ["s1"], False)
    assert scope.says(RESET, 2, session="s1") == NOTHING
    assert scope.says(RESET, 3).released


@pytest.mark.parametrize(
    ("second", "by", "kind", "killed"),
    [
        pytest.param(10, "bo", KILL, True, id="another operator in time"),
        pytest.param(10, "ada", KILL, False, id="the same one again"),
        pytest.param(61, "bo", KILL, False, id="another one too late"),
        pytest.param(10, "bo", FREEZE, False, id="another one who wants something else"),
    ],
)
def test_the_fleet_takes_two(second: float, by: str, kind: CommandKind, killed: bool) -> None:
    fleet = Scope(ScopeKind.FLEET, "*", second_person_s=60)
    assert fleet.says(KILL, 0, "ada") == ControlEffects(followup="second_wanted")
    result = fleet.says(kind, second, by)
    assert (result.control is not None, fleet.state) == (killed, "killed" if killed else None)


def held(*kinds: CommandKind, standing: SessionControl) -> list[tuple[str | None, bool]]:
    who = SessionRef("s1", "cleaner")
    result = [
        hold(standing, who, Command(command_id=f"c{n}", kind=kind, id="s1", by="ada", reason="so", time=T0_MS + n))
        for n, kind in enumerate(kinds)
    ]
    return [(s.control.state.value if s.control else None, s.released) for s in result]


def test_a_session_is_held_and_let_go() -> None:
    assert held(CONTAIN, CONTAIN, FREEZE, LIFT, LIFT, standing=SessionControl()) == [
        ("contained", False),
        (None, False),
        ("frozen", False),
        (None, True),
        (None, False),
    ]


def test_what_is_let_go_while_on_probation_is_on_probation_still() -> None:
    standing = SessionControl(probation=Probation(5, "ada", "so", T0_MS, "d"))
    assert held(FREEZE, LIFT, standing=standing) == [("frozen", False), ("probation", False)]


def test_a_killed_session_is_not_held_instead() -> None:
    standing = SessionControl(killed=Kill("d", "c", "r", "ada", T0_MS))
    assert held(CONTAIN, FREEZE, LIFT, standing=standing) == [(None, False)] * 3
