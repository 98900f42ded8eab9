"""That a kill is carried out, or that it is known that it is not.

A kill is carried out when the agent's side says so. Until then it has a deadline, on the worker's clock:
when that passes it is sent again, with the same id, and after the last time it becomes an incident of its
own. It is never taken for carried out because time has passed.

The deadline begins at the first tick after the decision (`ARM`), since what decides has no clock. What
follows from it bears the deadline as its time, so it is the same however late the tick comes.
"""

from typing import Final

from haltline.interventions.state.control_record import control_record
from haltline.interventions.state.decision_fields import flagged, under
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.messages import STOPPED
from haltline.interventions.state.session_control import Kill, SessionControl, digest
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.policy import Policy

ARM: Final = 1
"""Due at once: the first tick sets the deadline."""
DETECTOR: Final = "killed"
UNACKNOWLEDGED: Final = "kill_unacknowledged"
REISSUED: Final = "kill_reissued"


def due_ms(kill: Kill) -> int:
    """When a tick has to look at it, epoch milliseconds; 0: never."""
    if kill.stopped_at_ms is not None or kill.escalated_at_ms is not None or kill.issued == 0:
        return 0
    return kill.due_ms or ARM


def on_due(standing: SessionControl, who: SessionRef, policy: Policy, now_ms: int) -> ControlEffects:
    """What follows from a kill that is due: its deadline is set, it is sent again, or it is an incident."""
    kill = standing.killed
    if kill is None or not 0 < due_ms(kill) <= now_ms:
        return NOTHING
    wait_ms = round(policy.operated.kill_ack_s * 1000)
    if not who.listens:
        kill.issued = 0  # nobody is there who could answer; it holds for whoever comes
        return NOTHING
    if not kill.due_ms:
        kill.sent_ms = now_ms
        kill.due_ms = now_ms + wait_ms
        return NOTHING
    moment_ms = kill.due_ms
    if kill.issued < policy.operated.kill_issues:
        kill.issued += 1
        # What passed while nobody ticked is not made up for with a burst.
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
    """The kill sent again; as an incident, it is a decision of its own, for people."""
    return Decision(
        decision_id=kill.decision_id if finding is None else digest(UNACKNOWLEDGED, kill.decision_id),
        session_id=who.session_id,
        agent_id=who.agent_id,
        event_id=kill.decision_id,
        time=moment_ms,
        level=Level.KILL,
        code=kill.code,
        reason=finding.reason if finding else kill.reason,
        message=STOPPED,
        detector=DETECTOR,
        **({"values": {"issued": kill.issued}} | flagged(finding)),
        **under(policy),
    )
