"""Commands of operators about a session's requests and holds, and clock ticks, one at a time. Pure."""

from dataclasses import replace
from typing import Final

from haltline.interventions.control import approvals, freeze, kills, probation
from haltline.interventions.levels import hold
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.control import REMOVED_KINDS, Command, CommandKind
from haltline.schemas.policy import Policy

_ANSWERS = frozenset({CommandKind.APPROVE, CommandKind.REJECT, CommandKind.ASK})
PASSED_OVER: Final = ControlEffects(followup="command_passed_over")
_HOLDS = frozenset({CommandKind.FREEZE, CommandKind.CONTAIN, CommandKind.LIFT})


def on_command(control: SessionControl, who: SessionRef, command: Command, policy: Policy) -> ControlEffects:
    """Apply an operator's command."""
    if command.kind in _ANSWERS:
        frozen = approvals.freezes(control, command)
        effects = approvals.on_command(control, who, command, policy)
        if frozen and effects.followup == "approval_approved":
            if hold.is_for_progress(control.held):
                probation.begin(control, command, policy)
            lifted = freeze.lift(control, who)
            return replace(effects, control=lifted.control, released=lifted.released)
        return effects
    if command.kind in _HOLDS:
        return freeze.on_command(control, who, command, policy)
    return PASSED_OVER if command.kind in REMOVED_KINDS else NOTHING


def on_tick(control: SessionControl, who: SessionRef, policy: Policy, now_ms: int) -> ControlEffects:
    """Apply the first action that is due."""
    if control.killed is not None:
        return kills.on_due(control, who, policy, now_ms)
    return approvals.on_due(control, who, policy, now_ms)
