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
from tests.builders import T0_MS, at, cases, some

KILL, RESET, FREEZE = CommandKind.KILL, CommandKind.RESET, CommandKind.FREEZE
CONTAIN, LIFT = CommandKind.CONTAIN, CommandKind.LIFT


def command(kind: CommandKind, second: float, by: str = "ada", **fields: Any) -> Command:
    usual = {"command_id": f"{kind}{second}{by}", "id": "s1", "by": by, "reason": "so", "time": at(second)}
    return Command(kind=kind, **(usual | fields))


class Scope:
    def __init__(self, scope: ScopeKind = ScopeKind.AGENT, scope_id: str = "cleaner", **operations: Any) -> None:
        self.named = {"scope": scope, "id": scope_id}
        self.standing = ScopeStatus()
        self.policy = Policy(operations=Operations(**operations))

    def says(self, kind: CommandKind, second: float = 0, by: str = "ada", **fields: Any) -> ControlEffects:
        return on_command(self.standing, command(kind, second, by, **self.named, **fields), self.policy)

    @property
    def state(self) -> str | None:
        return None if self.standing.stands is None else self.standing.stands.state


@cases(
    "commands, state",
    {
        "killed": ([KILL], "killed"),
        "reset": ([KILL, RESET], None),
        "frozen": ([FREEZE], "frozen"),
        "lifted": ([FREEZE, LIFT], None),
        "held harder": ([CONTAIN, FREEZE], "frozen"),
        "held less, by an operator": ([FREEZE, CONTAIN], "contained"),
        "a kill is not softened by a freeze": ([KILL, FREEZE], "killed"),
        "nor by containment": ([KILL, CONTAIN], "killed"),
        "nor lifted": ([KILL, LIFT], "killed"),
        "what is contained can be killed": ([CONTAIN, KILL], "killed"),
        "a reset ends all": ([FREEZE, RESET], None),
    },
)
def test_what_stands_after_what_operators_say(commands: list[CommandKind], state: str | None) -> None:
    scope = Scope()
    for number, kind in enumerate(commands):
        scope.says(kind, number)
    assert scope.state == state


def test_a_second_kill_leaves_the_first_ones_record_and_one_session_may_be_released() -> None:
    scope = Scope()
    first = some(scope.says(KILL, 1, "ada").control)
    assert (first.key, first.by, first.code) == ("agent:cleaner", "ada", "agent_killed_by_operator")
    assert scope.says(KILL, 2, "bo") == NOTHING
    result = scope.says(RESET, 3, session="s1")
    record = some(result.control)
    assert (record.state, record.spared, result.released) == (ControlState.KILLED, ["s1"], False)
    assert scope.says(RESET, 4, session="s1") == NOTHING
    assert scope.says(RESET, 5).released


@cases(
    "second, by, kind, killed",
    {
        "another operator in time": (10, "bo", KILL, True),
        "the same one again": (10, "ada", KILL, False),
        "another one too late": (61, "bo", KILL, False),
        "another one who wants something else": (10, "bo", FREEZE, False),
    },
)
def test_the_fleet_takes_two(second: float, by: str, kind: CommandKind, killed: bool) -> None:
    fleet = Scope(ScopeKind.FLEET, "*", second_person_s=60)
    assert fleet.says(KILL, 0, "ada") == ControlEffects(followup="second_wanted")
    result = fleet.says(kind, second, by)
    assert (result.control is not None, fleet.state) == (killed, "killed" if killed else None)


@pytest.mark.parametrize(
    ("standing", "kinds", "expected"),
    [
        ({}, [CONTAIN, CONTAIN, FREEZE, LIFT, LIFT], ["contained", None, "frozen", "released", None]),
        ({"probation": Probation(5, "ada", "so", T0_MS, "d")}, [FREEZE, LIFT], ["frozen", "probation"]),
        ({"killed": Kill("d", "c", "r", "ada", T0_MS)}, [CONTAIN, FREEZE, LIFT], [None] * 3),
    ],
    ids=["held and let go", "on probation still", "killed, and not held instead"],
)
def test_a_session_is(standing: dict[str, Any], kinds: list[CommandKind], expected: list[str | None]) -> None:
    control, who = SessionControl(**standing), SessionRef("s1", "cleaner")
    result = [hold(control, who, command(kind, second), Policy()) for second, kind in enumerate(kinds)]
    states = [one.control.state.value if one.control else None for one in result]
    assert ["released" if one.released else state for one, state in zip(result, states, strict=True)] == expected
