"""Records of the control topic for a session that is killed, held or on probation."""

from typing import Any

from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.session_control import Freeze, Kill, Probation
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind


def record_of(
    who: SessionRef, state: ControlState, code: str, since: Kill | Freeze | Probation, **more: Any
) -> ControlRecord:
    """Return a session's record for the compacted topic; `since`: time, operator and reason; `more`: other fields."""
    return ControlRecord(
        scope=ScopeKind.SESSION,
        id=who.session_id,
        state=state,
        code=code,
        reason=since.reason,
        decision_id=since.decision_id,
        agent_id=who.agent_id,
        by=since.by,
        since=since.since_ms,
        **more,
    )


def control_record(who: SessionRef, kill: Kill, decided_at: int | None = None) -> ControlRecord:
    """Return the record of a killed session."""
    return record_of(
        who,
        ControlState.KILLED,
        kill.code,
        kill,
        decided_at=decided_at,
        stopped_at=kill.stopped_at_ms,
        time_to_stop_ms=kill.time_to_stop_ms,
        issued=kill.issued if kill.issued > 1 else None,
        escalated_at=kill.escalated_at_ms,
        unheard=(kill.unheard and kill.stopped_at_ms is None) or None,
        locked_until=kill.locked_until_ms,
    )
