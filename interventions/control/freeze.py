"""Sessions that an operator has frozen or contained: they may only read.

A kill replaces both and is never softened by them; a reset ends them.
"""

from haltline.interventions.control import probation
from haltline.interventions.levels import hold
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.records import record_of
from haltline.interventions.state.session_control import Freeze, SessionControl, digest
from haltline.schemas.control import Command, CommandKind, ControlRecord, ControlState
from haltline.schemas.policy import Policy

STATE_OF = {CommandKind.FREEZE: ControlState.FROZEN, CommandKind.CONTAIN: ControlState.CONTAINED}


def on_command(control: SessionControl, who: SessionRef, command: Command, policy: Policy) -> ControlEffects:
    """Freeze, contain, or lift either. Repeating a command changes nothing."""
    if control.killed is not None:
        return NOTHING
    state = STATE_OF.get(command.kind)
    if state is None:
        if hold.is_for_progress(control.held):
            probation.begin(control, command, policy)
        return lift(control, who)
    if control.held is not None and control.held.state == state:
        return NOTHING
    decision_id = digest("operator", command.id, command.command_id)
    control.held = Freeze(state.value, command.by, command.reason, command.time, decision_id)
    return ControlEffects(control=record(control.held, who), followup=state.value)


def lift(control: SessionControl, who: SessionRef) -> ControlEffects:
    """End a freeze or containment."""
    if control.held is None:
        return NOTHING
    control.held = None
    if control.probation is not None:
        return ControlEffects(control=probation.record(control.probation, who), followup="lifted")
    return ControlEffects(released=True, followup="lifted")


def record(held: Freeze, who: SessionRef) -> ControlRecord:
    """Return the record for the control topic."""
    return record_of(who, ControlState(held.state), held.code or f"session_{held.state}_by_operator", held)
