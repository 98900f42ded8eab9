"""Events that nobody thought of: one of them must never end the watch of every other session."""

import json
from typing import Any

import pytest

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.events import ActionEvent
from haltline.schemas.signals import Signal
from haltline.schemas.wire import decode_event
from haltline.streams.engine.core import Core, Effects, LogPosition, SessionState
from haltline.streams.engine.cross_session import ScopeEffects, ScopeState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.processor import MAX_STATE_BYTES
from tests.streams.sessions.bench import SESSION, T0_MS, TOPICS, Bench, delete


def event(number: int, kind: str = "action.proposed", **result: Any) -> bytes:
    head = {"event_id": f"e{number}", "session_id": SESSION, "time": T0_MS + number, "kind": kind}
    return json.dumps(head | result).encode()


@pytest.mark.parametrize(
    "command",
    [
        "touch $'\\ud800'",
        "rm /srv/$'\\udfff'",
        "git branch -D $'\\ud83d'",
        "cat <<'EOF' > $'\\udc00'\nx\nEOF",
        "rm $'\\UFFFFFFFF'",
    ],
)
def test_a_command_line_with_what_is_no_character_is_kept_as_a_state(command: str) -> None:
    outcome = Core().on_event(None, decode_event(event(0, action="bash", args={"command": command})))
    assert outcome.failures == ()
    assert state_codec.decode(state_codec.encode(outcome.state)) == outcome.state


def test_amounts_that_add_up_for_ever_in_one_step_stay_numbers() -> None:
    core, state = Core(), None
    usage = {"input_tokens": 2**53, "output_tokens": 2**53, "cache_read_tokens": 2**53}
    for number in range(1100):
        one = decode_event(event(number, action="think", call_id=f"c{number}", usage=usage))
        state = core.on_event(state, one).state
    assert state is not None
    assert state_codec.decode(state_codec.encode(state)) == state


class Stumbling(Core):
    """A core with a mistake in it, on one kind of event."""

    def on_event(self, state: SessionState | None, event: ActionEvent, at: LogPosition | None = None) -> Effects:
        outcome = super().on_event(state, event, at)
        if event.action == "stumble":
            raise KeyError("nobody thought of it")
        if event.agent_id == "stumbles-at-a-kill" and outcome.control is not None:
            raise KeyError("nobody thought of it")
        if event.action == "swell":
            outcome.state.detectors["of_tomorrow"] = "x" * (MAX_STATE_BYTES + 1)
        if event.action == "spoil":
            outcome.state.detectors["of_tomorrow"] = object()
        return outcome


def test_an_event_that_the_core_stumbles_over_is_kept_and_a_kill_that_was_decided_stands() -> None:
    worker = Bench(core=Stumbling())
    worker.put(TOPICS.actions, event(0, action="stumble"))
    for second in (1, 2, 3):
        worker.put(TOPICS.actions, delete(second))
    assert f"dead letter {BadRecord.DETECTOR_FAILED.value}" in " ".join(worker.counted.told)
    assert len(worker.sent.of(TOPICS.dead_letter)) == 1
    assert any("KILL" in reported for reported in worker.counted.told)
    assert state_codec.decode(worker.checkpoint()[SESSION.encode()] or b"").standing.killed is not None
    worker = Bench(core=Stumbling())
    for number in range(3):
        fields: dict[str, Any] = {"action": "delete_asset", "args": {"asset_id": "a"}, "agent_id": "stumbles-at-a-kill"}
        worker.put(TOPICS.actions, event(number, call_id=f"c{number}", **fields))
    assert len(worker.sent.of(TOPICS.dead_letter)) == 1
    standing = [json.loads(value or b"{}") for value in worker.sent.of(TOPICS.control)]
    assert [(record["id"], record["state"], record["code"]) for record in standing] == [
        (SESSION, "killed", "session_killed_loop_guard")
    ]


@pytest.mark.parametrize("action", ["swell", "spoil"])
def test_a_state_that_cannot_be_kept_begins_anew_and_a_kill_stands(action: str) -> None:
    worker = Bench(core=Stumbling())
    for second in (1, 2, 3):
        worker.put(TOPICS.actions, delete(second))
    worker.put(TOPICS.actions, event(9, action=action))
    kept = state_codec.decode(worker.checkpoint()[SESSION.encode()] or b"")
    assert kept.standing.killed is not None
    assert (kept.detectors, kept.events) == ({}, 4)
    assert "state raised" in worker.counted.told


def test_a_signal_that_the_state_of_its_agent_cannot_take_is_kept_and_the_agent_begins_anew() -> None:
    class Odd(Core):
        def on_signal(self, state: ScopeState | None, signal: Signal, at: LogPosition | None = None) -> ScopeEffects:
            if signal.signal_id == "odd":
                raise KeyError("nobody thought of it")
            return super().on_signal(state, signal, at)

    bench = Bench(core=Odd())
    for number, name in enumerate(("fine", "odd", "later")):
        about = {"kind": "started", "scope": "agent", "id": SESSION, "session_id": "s", "time": T0_MS + number}
        bench.put(TOPICS.signals, Signal.model_validate({"signal_id": name, "event_id": name, **about}))
    assert bench.counted.told == ["state raised", f"dead letter {BadRecord.DETECTOR_FAILED}"]
    assert len(bench.checkpoint()) == 1
