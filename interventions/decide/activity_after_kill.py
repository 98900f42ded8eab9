"""Activity of a killed session: an incident of its own, as its guard disobeys or does not receive decisions.

Fires: `activity_after_kill` (critical) on each action that began more than the grace time after the kill, at its start
and again at its end. Quiet: actions that began before and end now; refused calls; model turns. Misses: unpublished
actions. Other sessions are covered where signals are: one started by a killed session is killed with it, and one of a
killed agent is an incident too (`haltline.streams.engine.cross_session`).
"""

from typing import Final

from haltline.interventions.state.session_control import Kill
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Evidence, Finding, Severity

DETECTOR: Final = "killed"
CODE: Final = "activity_after_kill"


def activity_after_kill(
    kill: Kill, event: ActionEvent, begun_ms: int, evidence: Evidence, *, grace_s: float
) -> Finding | None:
    """Return a finding if an action that was not refused began later than `grace_s` after the kill.

    `begun_ms`: event time of its start; for a result, that of its proposal.
    """
    after_s = (begun_ms - kill.since_ms) / 1000
    if after_s <= grace_s:
        return None
    did = "carried out" if event.kind is Kind.COMPLETED else "began"
    reason = f"the session {did} {event.action[:80] or 'a call'} {after_s:.0f}s after it was killed: {kill.reason}"
    return finding_after_kill(
        reason, evidence, after_s, grace_s=grace_s, acknowledged=int(kill.stopped_at_ms is not None)
    )


def finding_after_kill(reason: str, evidence: Evidence, after_s: float, *, grace_s: float, **values: int) -> Finding:
    """Return the finding about activity after a kill."""
    return Finding(
        detector=DETECTOR,
        code=CODE,
        severity=Severity.CRITICAL,
        reason=reason[:4096],
        evidence=(evidence,),
        values={"after_kill_s": round(after_s, 3), **values},
        thresholds={"grace_s": grace_s},
    )
