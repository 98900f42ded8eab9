"""The benchmarks' events: the same for the same seed, and valid events of agents."""

import pytest

from benchmarks.load import Load, generate
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.wire import decode_event
from haltline.streams.engine.core import Core, SessionState

START_MS = 1_750_000_000_000
LOAD = Load(events=20_000, sessions=200, start_ms=START_MS, seed=5)


@pytest.fixture(scope="module")
def events() -> list[ActionEvent]:
    return [decode_event(sent.value) for sent in generate(LOAD)]


def test_the_events_of_a_load_are_as_many_as_asked_for_in_order_and_await_verdicts_when_asked(
    events: list[ActionEvent],
) -> None:
    assert len(events) == LOAD.events
    assert len({event.session_id for event in events}) == LOAD.sessions
    assert len({event.event_id for event in events}) == LOAD.events
    last: dict[str, ActionEvent] = {}
    completed = 0
    for event in events:
        if event.kind is Kind.COMPLETED:
            completed += 1
            assert last[event.session_id].kind is Kind.PROPOSED
            assert last[event.session_id].call_id == event.call_id
        last[event.session_id] = event
    assert completed > LOAD.events / 3
    assert not any(event.await_verdict for event in events)
    waiting = Load(events=500, sessions=20, start_ms=START_MS, await_verdicts=True)
    for sent in generate(waiting):
        event = decode_event(sent.value)
        assert event.await_verdict == sent.awaited == (event.kind is Kind.PROPOSED)


def test_a_runaway_is_killed_and_most_healthy_sessions_are_not() -> None:
    def killed(runaway_share: float) -> int:
        load = Load(events=1200, sessions=20, start_ms=START_MS, runaway_share=runaway_share)
        core, states, found = Core(), dict[str, SessionState](), set()
        for sent in generate(load):
            outcome = core.on_event(states.get(sent.session_id), decode_event(sent.value))
            states[sent.session_id] = outcome.state
            if outcome.decision is not None and outcome.decision.level is Level.KILL:
                found.add(sent.session_id)
        return len(found)

    assert killed(1.0) == 20
    assert killed(0.0) == 0
