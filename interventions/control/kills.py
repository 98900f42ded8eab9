"""A session's kill by an operator, its acknowledgement, and its escalation when none arrives.

A kill is complete when the agent's side acknowledges it. Until then it has a deadline on the worker's clock: after it
the kill is sent again with the same id, and after the last attempt it becomes an incident of its own. Time alone never
completes a kill.

The deadline starts at the first tick after the decision (`ARM`), as the deciding core has no clock. Its effects use the
deadline as their time, so they are the same however late the tick is.
"""

from typing import Final

from haltline.interventions.state import texts
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.records import about_session, control_record, flagged, under
from haltline.interventions.state.session_control import Kill, SessionControl, digest
from haltline.schemas.control import Command, Feedback, Stage
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.policy import Policy

ARM: Final = 1
"""Due at once: the first tick sets the deadline."""
DETECTOR: Final = "killed"
UNACKNOWLEDGED: Final = "kill_unacknowledged"
REISSUED: Final = "kill_reissued"

_MAX_STOPPED_EARLY: Final = 4
"""Stops that are stored before their kill is known; the oldest is dropped first."""


def by_operator(control: SessionControl, command: Command, agent_id: str, policy: Policy) -> Decision | None:
    """Apply an operator's kill of the session; None if it is killed already."""
    if control.killed is not None:
        return None
    code = command.code or "session_killed_by_operator"
    decision_id = digest("operator", command.id, command.command_id)
    control.killed = kill = Kill(decision_id, code, command.reason, command.by, command.time)
    return Decision(
        decision_id=decision_id,
        session_id=command.id,
        agent_id=agent_id,
        event_id=command.command_id,
        time=command.time,
        level=Level.KILL,
        code=code,
        reason=f"killed by {command.by}: {command.reason}",
        message=texts.of_entry(control_record(SessionRef(command.id, agent_id), kill)),
        **under(policy),
    )


def acknowledge(control: SessionControl, feedback: Feedback) -> bool:
    """Apply feedback of the agent's side. Returns whether a kill became acknowledged."""
    kill = control.killed
    if feedback.stage is not Stage.STOPPED:
        return False
    if kill is None:
        control.stopped_early[feedback.decision_id] = feedback.time
        if len(control.stopped_early) > _MAX_STOPPED_EARLY:
            del control.stopped_early[next(iter(control.stopped_early))]
        return False
    if feedback.decision_id != kill.decision_id:
        return False
    known = (kill.stopped_at_ms, kill.time_to_stop_ms)
    # The end of the session, or the same feedback, may have arrived before: the earliest time counts.
    kill.stopped_at_ms = feedback.time if kill.stopped_at_ms is None else min(kill.stopped_at_ms, feedback.time)
    if feedback.decided_at is not None and kill.time_to_stop_ms is None:
        # It may acknowledge a kill that was sent again: the first sending counts.
        first_ms = min(feedback.decided_at, kill.sent_ms or feedback.decided_at)
        kill.time_to_stop_ms = max(0, feedback.time - first_ms)
    return known != (kill.stopped_at_ms, kill.time_to_stop_ms)


def has_ended(control: SessionControl, time_ms: int) -> bool:
    """Apply the end of the session, after which nothing of it runs. Returns whether a kill became acknowledged.

    A guard that ends normally acknowledges what it has received, and may miss a kill that arrives just then.
    """
    kill = control.killed
    if kill is None:
        return False
    known, ended_ms = kill.stopped_at_ms, max(time_ms, kill.since_ms)
    kill.stopped_at_ms = ended_ms if known is None else min(known, ended_ms)
    return known != kill.stopped_at_ms


def due_ms(kill: Kill) -> int:
    """Return when a tick must check the kill, in epoch milliseconds; 0: never."""
    if kill.stopped_at_ms is not None or kill.escalated_at_ms is not None or kill.issued == 0:
        return 0
    return kill.due_ms or ARM


def on_due(control: SessionControl, who: SessionRef, policy: Policy, now_ms: int) -> ControlEffects:
    """Return the effects of a kill that is due: its deadline is set, it is sent again, or it is an incident."""
    kill = control.killed
    if kill is None or not 0 < due_ms(kill) <= now_ms:
        return NOTHING
    wait_ms = round(policy.operated.kill_ack_s * 1000)
    if not who.listens:
        kill.issued = 0  # no guard is connected; the kill stays in force for later ones
        return NOTHING
    if not kill.due_ms:
        kill.sent_ms = now_ms
        kill.due_ms = now_ms + wait_ms
        return NOTHING
    moment_ms = kill.due_ms
    if kill.issued < policy.operated.kill_issues:
        kill.issued += 1
        # Deadlines missed without ticks do not cause a burst.
        kill.due_ms = max(moment_ms, now_ms - wait_ms) + wait_ms
        decision = _decision(kill, who, policy, moment_ms)
        return ControlEffects((decision,), control=control_record(who, kill, kill.sent_ms), followup=REISSUED)
    kill.escalated_at_ms = moment_ms
    finding = _finding(kill, policy, moment_ms)
    decision = _decision(kill, who, policy, moment_ms, finding)
    return ControlEffects(
        (decision,), control=control_record(who, kill, kill.sent_ms), incident=finding, followup=UNACKNOWLEDGED
    )


def _finding(kill: Kill, policy: Policy, moment_ms: int) -> Finding:
    waited_s = (moment_ms - (kill.sent_ms or moment_ms)) / 1000
    return Finding(
        detector=DETECTOR,
        code=UNACKNOWLEDGED,
        severity=Severity.CRITICAL,
        reason=f"the kill was sent {kill.issued} times in {waited_s:.0f}s and the agent's side has not "
        f"acknowledged the stop: {kill.reason}"[:4096],
        evidence=(Evidence(event_id=kill.decision_id),),
        values={"issued": kill.issued, "waited_s": round(waited_s, 3)},
        thresholds={"kill_ack_s": policy.operated.kill_ack_s, "kill_issues": policy.operated.kill_issues},
    )


def _decision(kill: Kill, who: SessionRef, policy: Policy, moment_ms: int, finding: Finding | None = None) -> Decision:
    """Return the kill to send again; for an incident, a decision of its own, for people."""
    return Decision(
        decision_id=kill.decision_id if finding is None else digest(UNACKNOWLEDGED, kill.decision_id),
        event_id=kill.decision_id,
        time=moment_ms,
        level=Level.KILL,
        code=kill.code,
        reason=finding.reason if finding else kill.reason,
        message=texts.of_entry(control_record(who, kill)),
        detector=DETECTOR,
        **({"values": {"issued": kill.issued}} | flagged(finding)),
        **about_session(who, policy),
    )
