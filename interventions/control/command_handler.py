"""Commands of operators, feedback of agents and clock ticks, applied to one session one at a time. Pure."""

from dataclasses import replace
from typing import Final

from haltline.interventions.control import approvals, freeze, kills, probation
from haltline.interventions.control.probation import Released
from haltline.interventions.levels import hold
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.control import REMOVED_KINDS, Command, CommandKind
from haltline.schemas.policy import Policy

_ANSWERS = frozenset({CommandKind.APPROVE, CommandKind.REJECT, CommandKind.ASK})
PASSED_OVER: Final = ControlEffects(followup="command_passed_over")
_HOLDS = frozenset({CommandKind.FREEZE, CommandKind.CONTAIN, CommandKind.LIFT})


class CommandHandler:
    """Applies commands and ticks under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def command(self, control: SessionControl, who: SessionRef, command: Command) -> ControlEffects:
        """Apply an operator's command."""
        if command.kind in _ANSWERS:
            frozen = approvals.freezes(control, command)
            effects = approvals.on_command(control, who, command, self._policy)
            if frozen and effects.followup == "approval_approved":
                if hold.is_for_progress(control.held):
                    probation.begin(control, command, self._policy)
                lifted = freeze.lift(control, who)
                return replace(effects, control=lifted.control, released=lifted.released)
            return effects
        if command.kind in _HOLDS:
            return freeze.on_command(control, who, command, self._policy)
        return PASSED_OVER if command.kind in REMOVED_KINDS else NOTHING

    def reset(self, control: SessionControl, who: SessionRef, command: Command) -> Released:
        """Apply an operator's reset."""
        return probation.reset(control, who, command, self._policy)

    @staticmethod
    def due_ms(control: SessionControl) -> int:
        """Return when the next tick is due, in epoch milliseconds on the worker's clock; 0: never."""
        if control.killed is not None:
            return kills.due_ms(control.killed)
        return approvals.due_ms(control) if control.approvals else 0

    def tick(self, control: SessionControl, who: SessionRef, now_ms: int) -> ControlEffects:
        """Apply the first action that is due."""
        if control.killed is not None:
            return kills.on_due(control, who, self._policy, now_ms)
        return approvals.on_due(control, who, self._policy, now_ms)
