"""The benchmarks' events: the same for the same seed, and valid events of agents."""

from benchmarks.load import Load, generate
from haltline.schemas.decisions import Level
from haltline.schemas.wire import decode_event
from haltline.streams.engine.core import Core, SessionState

START_MS = 1_750_000_000_000


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
