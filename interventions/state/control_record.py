"""The control topic's record of a killed session."""

from haltline.interventions.state.session_control import Kill
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind


def control_record(session_id: str, agent_id: str, kill: Kill, decided_at: int | None = None) -> ControlRecord:
    """What the compacted topic says of a killed session."""
    return ControlRecord(
        scope=ScopeKind.SESSION,
        id=session_id,
        state=ControlState.KILLED,
        code=kill.code,
        reason=kill.reason,
        decision_id=kill.decision_id,
        agent_id=agent_id,
        by=kill.by,
        since=kill.since_ms,
        decided_at=decided_at,
        stopped_at=kill.stopped_at_ms,
        time_to_stop_ms=kill.time_to_stop_ms,
        issued=kill.issued if kill.issued > 1 else None,
        escalated_at=kill.escalated_at_ms,
        unheard=(kill.unheard and kill.stopped_at_ms is None) or None,
        locked_until=kill.locked_until_ms,
    )
