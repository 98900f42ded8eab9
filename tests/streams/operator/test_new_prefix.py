"""The states that are written for copied entries of `control`."""

import pytest

from haltline.interventions.control import freeze, probation
from haltline.interventions.state.records import control_record
from haltline.schemas.control import ControlRecord, ControlState, control_key
from haltline.schemas.decisions import ScopeKind
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.session_state import SessionState
from haltline.streams.operator.new_prefix import state_key, state_of
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import State, decoded
from tests.builders import T0_MS


def entry(scope: ScopeKind, state: ControlState, **more: object) -> ControlRecord:
    fields = {"id": "s:1", "code": "a_code", "reason": "why", "decision_id": "d", "by": "ada", "agent_id": "cleaner"}
    return ControlRecord.model_validate(fields | {"scope": scope, "state": state, "since": T0_MS} | more)


def in_force(state: State) -> ControlRecord | None:
    """The entry of the state, as the worker writes it."""
    if isinstance(state, ScopeState):
        stands = state.standing.stands
        return None if stands is None else stands.as_record(ScopeKind(state.scope), state.id)
    control = state.control
    if control.killed is not None:
        return control_record(state.ref, control.killed, control.killed.sent_ms)
    if control.held is not None:
        return freeze.record(control.held, state.ref)
    return None if control.probation is None else probation.record(control.probation, state.ref)


SESSION = ScopeKind.SESSION
ENTRIES = {
    "a kill that nobody has acknowledged": entry(SESSION, ControlState.KILLED, decided_at=T0_MS + 1, issued=3),
    "a kill on probation that was acknowledged": entry(
        SESSION,
        ControlState.KILLED,
        decided_at=T0_MS + 1,
        stopped_at=T0_MS + 2,
        time_to_stop_ms=1,
        locked_until=T0_MS + 9,
    ),
    "a freeze": entry(SESSION, ControlState.FROZEN),
    "a containment": entry(SESSION, ControlState.CONTAINED),
    "a probation": entry(SESSION, ControlState.PROBATION, code=probation.ON_PROBATION, actions_left=4),
    "a killed agent with released sessions": entry(
        ScopeKind.AGENT, ControlState.KILLED, agent_id="unknown", spared=["s1", "s2"]
    ),
    "the frozen fleet": entry(ScopeKind.FLEET, ControlState.FROZEN, id="*", agent_id="unknown"),
}


@pytest.mark.parametrize("copied", ENTRIES.values(), ids=ENTRIES)
def test_the_state_of_an_entry_has_that_entry_in_force(copied: ControlRecord) -> None:
    key = state_key(control_key(copied.scope, copied.id).encode())
    state = decoded(key, state_codec.encode(state_of(copied)))
    assert in_force(state) == copied
    assert isinstance(state, SessionState) is (copied.scope is SESSION)
