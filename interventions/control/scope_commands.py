"""Commands of operators for an agent, a mission, a tool, a target or the fleet.

A kill is never softened: a killed scope is not frozen or contained instead, and killing it again changes nothing. The
fleet's kill takes two different operators, the second within a time limit. A reset of one session of a killed scope
spares that session only.
"""

from typing import Final

from haltline.interventions.decide.cross_session import ScopeControl, ScopeStatus
from haltline.interventions.state.effects import NOTHING, ControlEffects
from haltline.interventions.state.session_control import RepeatedCommand, digest
from haltline.schemas.control import Command, CommandKind, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.policy import Policy

MAX_SPARED: Final = 1000
"""Sessions that are released one by one."""

STATE_OF: Final = {
    CommandKind.KILL: ControlState.KILLED,
    CommandKind.FREEZE: ControlState.FROZEN,
    CommandKind.CONTAIN: ControlState.CONTAINED,
}
"""The state after an operator's command."""


def on_command(status: ScopeStatus, command: Command, policy: Policy) -> ControlEffects:
    """Apply an operator's command. Changes `status` in place."""
    stands = status.stands
    killed = stands is not None and stands.state == ControlState.KILLED
    if command.kind is CommandKind.RESET:
        if command.session is None:
            status.stands, status.asked = None, None
            return ControlEffects(released=True, followup="reset")
        if stands is None or command.session in stands.spared or len(stands.spared) >= MAX_SPARED:
            return NOTHING
        stands.spared.append(command.session)
        return ControlEffects(control=stands.as_record(command.scope, command.id), followup="spared")
    if command.kind is CommandKind.LIFT:
        if stands is None or killed:
            return NOTHING
        status.stands = None
        return ControlEffects(released=True, followup="lifted")
    state = STATE_OF.get(command.kind)
    if state is None or killed or (stands is not None and stands.state == state):
        return NOTHING
    if command.scope is ScopeKind.FLEET and not _second(status, command, policy):
        return ControlEffects(followup="second_wanted")
    status.stands = ScopeControl(
        state=state.value,
        since_ms=command.time,
        code=f"{command.scope.value}_{state.value}_by_operator",
        reason=command.reason,
        by=command.by,
        decision_id=digest("operator", command.id, command.command_id),
    )
    return ControlEffects(control=status.stands.as_record(command.scope, command.id), followup=state.value)


def _second(status: ScopeStatus, command: Command, policy: Policy) -> bool:
    """Return whether a second operator confirms the same command in time; stores the first request."""
    wants = RepeatedCommand(command.by, command.time, command.kind.value)
    confirmed = wants.confirms(status.asked, policy.operated.second_person_s)
    status.asked = None if confirmed else wants
    return confirmed
