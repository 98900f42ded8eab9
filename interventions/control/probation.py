"""Release by an operator, and the stricter rules for a released session.

Only an operator's reset releases. It states who and why, and starts probation: for a number of actions the session has
stricter rules, and a hold becomes a kill. A kill on probation locks the session: before the lockout has passed, a reset
takes two different operators. Each further kill doubles the lockout. A session that completes its probation has a clean
slate.

If the policy requires it, a reset releases nothing: the session is closed, and the work continues in a new one.

The lockout counts from the kill's event time, and is compared with the time of the operator's command.
"""

from dataclasses import dataclass
from typing import Final

from haltline.interventions.levels import hold
from haltline.interventions.state.effects import ControlEffects, SessionRef
from haltline.interventions.state.records import control_record, record_of
from haltline.interventions.state.session_control import Kill, Probation, RepeatedCommand, SessionControl, digest
from haltline.schemas.control import HALTLINE, Command, ControlRecord, ControlState
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy

KILLED_ON_PROBATION: Final = "session_killed_on_probation"
CLOSED: Final = "session_closed_by_operator"
"""The code of a session that a reset closed, where the policy requires a new one."""
ON_PROBATION: Final = "session_on_probation"


@dataclass(frozen=True, slots=True)
class Released:
    """The outcome of a reset."""

    effects: ControlEffects
    control: SessionControl | None
    """The new state; None: nothing has changed, the reset is refused."""


def reset(control: SessionControl, who: SessionRef, command: Command, policy: Policy) -> Released:
    """Apply an operator's reset."""
    kill = control.killed
    if kill is None:
        # Counts are cleared, and a probation continues. A freeze or containment ends; after a hold, probation begins.
        if hold.is_for_progress(control.held):
            begin(control, command, policy)
        kept, on = SessionControl(probation=control.probation, trips=control.trips), control.probation
        effects = ControlEffects(control=None if on is None else record(on, who), released=on is None, followup="reset")
        return Released(effects, kept)
    locked = kill.locked_until_ms is not None and command.time < kill.locked_until_ms
    if locked and not _second(control, command, policy):
        return Released(ControlEffects(control=control_record(who, kill, kill.sent_ms), followup="reset_refused"), None)
    if policy.operated.reset_requires_new_session:
        kill.code, kill.by, kill.reason = CLOSED, command.by, command.reason
        return Released(ControlEffects(control=control_record(who, kill, kill.sent_ms), followup="closed"), control)
    commanded = command.probation_actions
    actions = policy.operated.probation.actions if commanded is None else commanded
    if actions == 0:
        return Released(ControlEffects(released=True, followup="reset"), SessionControl())
    probation = Probation(actions, command.by, command.reason, command.time, digest("reset", command.command_id))
    kept = SessionControl(probation=probation, trips=control.trips)
    return Released(ControlEffects(control=record(probation, who), followup="reset"), kept)


def on_event(
    control: SessionControl,
    event: ActionEvent,
    decision: Decision | None,
    policy: Policy,
    *,
    acts: bool,
    newly_killed: bool,
) -> tuple[Decision | None, bool]:
    """Return the decision, changed by probation, and whether the session has completed its probation.

    `acts`: the event is one of the session's actions.
    """
    probation = control.probation
    if probation is None:
        return decision, False
    if not newly_killed and decision is not None and hold.freezes(event, decision):
        decision = decision.model_copy(
            update={"level": Level.KILL, "code": KILLED_ON_PROBATION, "message": "", "flag": True}
        )
        control.killed = Kill(decision.decision_id, decision.code, decision.reason, HALTLINE, event.time)
        newly_killed = True
    if newly_killed and control.killed is not None:
        rules = policy.operated.probation
        control.probation = None
        control.trips += 1
        lockout_s = min(rules.lockout_s * 2 ** (min(control.trips, 32) - 1), rules.longest_lockout_s)
        control.killed.locked_until_ms = event.time + round(lockout_s * 1000)
        return decision, False
    if acts:
        probation.left -= 1
        if probation.left <= 0:
            control.probation, control.trips = None, 0
            return decision, control.held is None  # a freeze or containment replaces it
    return decision, False


def begin(control: SessionControl, command: Command, policy: Policy) -> None:
    """Begin the probation of a session that an operator has released from a hold."""
    actions = policy.operated.probation.actions
    if actions and control.probation is None:
        decision_id = digest("reset", command.command_id)
        control.probation = Probation(actions, command.by, command.reason, command.time, decision_id)


def _second(control: SessionControl, command: Command, policy: Policy) -> bool:
    """Return whether a second operator confirms the release in time; stores the first request."""
    if not command.force:
        return False
    wants = RepeatedCommand(command.by, command.time)
    if wants.confirms(control.release_asked, policy.operated.second_person_s):
        return True
    control.release_asked = wants
    return False


def record(probation: Probation, who: SessionRef) -> ControlRecord:
    """Return the record for the control topic."""
    return record_of(who, ControlState.PROBATION, ON_PROBATION, probation, actions_left=probation.left)
