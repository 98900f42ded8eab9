"""A session that an operator has frozen, or contained: it may only read.

What is killed is neither: a kill is never softened. A kill takes the place of both, and a reset ends them.
"""

from haltline.interventions.control.probation import record as probation_record
from haltline.interventions.state.control_record import record_of
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.session_control import Freeze, SessionControl, digest
from haltline.schemas.control import Command, CommandKind, ControlRecord, ControlState

STATE_OF = {CommandKind.FREEZE: ControlState.FROZEN, CommandKind.CONTAIN: ControlState.CONTAINED}


def on_command(standing: SessionControl, who: SessionRef, command: Command) -> ControlEffects:
    """Freezes, contains, or lifts it. The same again changes nothing."""
    if standing.killed is not None:
        return NOTHING
    state = STATE_OF.get(command.kind)
    if state is None:
        return lift(standing, who)
    if standing.held is not None and standing.held.state == state:
        return NOTHING
    decision_id = digest("operator", command.id, command.command_id)
    standing.held = Freeze(state.value, command.by, command.reason, command.time, decision_id)
    return ControlEffects(control=record(standing.held, who), followup=state.value)


def lift(standing: SessionControl, who: SessionRef) -> ControlEffects:
    """Lets the session go on."""
    if standing.held is None:
        return NOTHING
    standing.held = None
    if standing.probation is not None:
        return ControlEffects(control=probation_record(standing.probation, who), followup="lifted")
    return ControlEffects(released=True, followup="lifted")


def record(held: Freeze, who: SessionRef) -> ControlRecord:
    """What the control topic says of it."""
    return record_of(who, ControlState(held.state), held.code or f"session_{held.state}_by_operator", held)
