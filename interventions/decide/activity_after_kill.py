"""What a killed session still does: an incident of its own, since somebody does not obey, or nobody listens.

Fires: `activity_after_kill` (critical) on each act that began more than the grace time after the kill, when it is
    begun and again when it is reported as done.
Quiet: what had begun before and now ends; what the agent's side refused; model turns.
Misses: acts that nobody publishes. What another session does is seen where signals are: one that a killed session has
    started is killed with it, and one of a killed agent is an incident too (`haltline.streams.engine.cross_session`).
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
    """A finding when an act that was not refused began later than `grace_s` after the kill.

    `begun_ms` is the event time at which it began: of a result, that of its proposal.
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
    """The finding about what goes on though it was killed."""
    return Finding(
        detector=DETECTOR,
        code=CODE,
        severity=Severity.CRITICAL,
        reason=reason[:4096],
        evidence=(evidence,),
        values={"after_kill_s": round(after_s, 3), **values},
        thresholds={"grace_s": grace_s},
    )
