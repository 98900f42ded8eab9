"""Release by an operator, and what a released session is held to.

Only an operator's reset releases. It names who and why, and begins probation: for so many actions the session is
held to stricter rules, and what would have been a refusal is a kill. Such a kill locks the session: before the
lockout has passed, a reset takes two different operators. Each further one locks for twice as long. A session that
comes through its probation has a clean slate.

Where the policy says so, a reset releases nothing: the session is closed, and the work goes on in a new one.

The lockout counts from the kill's event time, and is compared with the time of the operator's command.
"""

from dataclasses import dataclass
from typing import Final

from haltline.interventions.state.control_record import control_record, record_of
from haltline.interventions.state.effects import ControlEffects, SessionRef
from haltline.interventions.state.messages import STOPPED
from haltline.interventions.state.session_control import Kill, Probation, RepeatedCommand, SessionControl, digest
from haltline.schemas.control import Command, ControlRecord, ControlState
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.policy import Policy

KILLED_ON_PROBATION: Final = "session_killed_on_probation"
CLOSED: Final = "session_closed_by_operator"
"""The code of a session that was reset where a reset asks for a new one."""
ON_PROBATION: Final = "session_on_probation"


@dataclass(frozen=True, slots=True)
class Released:
    """What a reset comes to."""

    effects: ControlEffects
    standing: SessionControl | None
    """What stands from now on; None: nothing has changed, the reset is refused."""


def reset(standing: SessionControl, who: SessionRef, command: Command, policy: Policy) -> Released:
    """An operator's reset."""
    kill = standing.killed
    if kill is None:
        # Nothing to release: what was counted is forgotten, and a probation goes on.
        # What an operator froze or contained is released by it too.
        kept, on = SessionControl(probation=standing.probation, trips=standing.trips), standing.probation
        effects = ControlEffects(control=None if on is None else record(on, who), released=on is None, followup="reset")
        return Released(effects, kept)
    locked = kill.locked_until_ms is not None and command.time < kill.locked_until_ms
    if locked and not _second(standing, command, policy):
        return Released(ControlEffects(control=control_record(who, kill, kill.sent_ms), followup="reset_refused"), None)
    if policy.operated.reset_requires_new_session:
        kill.code, kill.by, kill.reason = CLOSED, command.by, command.reason
        return Released(ControlEffects(control=control_record(who, kill, kill.sent_ms), followup="closed"), standing)
    commanded = command.probation_actions
    actions = policy.operated.probation.actions if commanded is None else commanded
    if actions == 0:
        return Released(ControlEffects(released=True, followup="reset"), SessionControl())
    probation = Probation(actions, command.by, command.reason, command.time, digest("reset", command.command_id))
    kept = SessionControl(probation=probation, trips=standing.trips)
    return Released(ControlEffects(control=record(probation, who), followup="reset"), kept)


def on_event(
    standing: SessionControl, decision: Decision | None, policy: Policy, *, time_ms: int, acts: bool, newly_killed: bool
) -> tuple[Decision | None, bool]:
    """What probation makes of a decision; and whether the probation is over, as the session has come through it.

    `acts`: the event is one of the session's actions.
    """
    probation = standing.probation
    if probation is None:
        return decision, False
    if not newly_killed and decision is not None and decision.level >= Level.PAUSE:
        decision = decision.model_copy(
            update={"level": Level.KILL, "code": KILLED_ON_PROBATION, "message": STOPPED, "flag": True}
        )
        standing.killed = Kill(decision.decision_id, decision.code, decision.reason, "haltline", time_ms)
        newly_killed = True
    if newly_killed and standing.killed is not None:
        rules = policy.operated.probation
        standing.probation = None
        standing.trips += 1
        lockout_s = min(rules.lockout_s * 2 ** (min(standing.trips, 32) - 1), rules.longest_lockout_s)
        standing.killed.locked_until_ms = time_ms + round(lockout_s * 1000)
        return decision, False
    if acts:
        probation.left -= 1
        if probation.left <= 0:
            standing.probation, standing.trips = None, 0
            return decision, standing.held is None  # what else holds stands in its place
    return decision, False


def _second(standing: SessionControl, command: Command, policy: Policy) -> bool:
    """Whether this is the second of two operators who want it, within the time for that; notes the first."""
    if not command.force:
        return False
    wants = RepeatedCommand(command.by, command.time)
    if wants.confirms(standing.release_asked, policy.operated.second_person_s):
        return True
    standing.release_asked = wants
    return False


def record(probation: Probation, who: SessionRef) -> ControlRecord:
    """What the control topic says of it."""
    return record_of(who, ControlState.PROBATION, ON_PROBATION, probation, actions_left=probation.left)
