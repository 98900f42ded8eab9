"""Unexpected events: none may end the processing of other sessions."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors import ALL
from haltline.detectors.commands import destructive_shapes
from haltline.detectors.features import call_changes, tool_classifier
from haltline.schemas.control import Command
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import Interventions, Modification
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.signals import Signal
from haltline.schemas.wire import decode, decode_event
from haltline.streams.engine.core import Core, Effects, LogPosition, SessionState
from haltline.streams.engine.cross_session import ScopeEffects, ScopeState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.processor import MAX_STATE_BYTES
from tests.builders import T0_MS
from tests.streams.sessions.bench import SESSION, TOPICS, Bench, delete


def event(number: int, kind: str = "action.proposed", **result: Any) -> bytes:
    head = {"event_id": f"e{number}", "session_id": SESSION, "time": T0_MS + number, "kind": kind}
    return json.dumps(head | result).encode()


NO_CHARACTERS = ["touch $'\\ud800'", "rm $'\\udfff'", "git branch -D $'\\ud83d'", "cat <<'EOF' > $'\\udc00'\nx\nEOF"]


@pytest.mark.parametrize("command", [*NO_CHARACTERS, "rm $'\\UFFFFFFFF'"])
def test_a_command_line_with_what_is_no_character_is_kept_as_a_state(command: str) -> None:
    outcome = Core().on_event(None, decode_event(event(0, action="bash", args={"command": command})))
    assert outcome.failures == ()
    read = state_codec.decode(state_codec.encode(outcome.state))
    assert state_codec.shown(read) == state_codec.shown(outcome.state)


def test_amounts_that_add_up_for_ever_in_one_step_stay_numbers() -> None:
    core, state = Core(), None
    usage = {"input_tokens": 2**53, "output_tokens": 2**53, "cache_read_tokens": 2**53}
    for number in range(1100):
        one = decode_event(event(number, action="think", call_id=f"c{number}", usage=usage))
        state = core.on_event(state, one).state
    assert state is not None
    assert state_codec.shown(state_codec.decode(state_codec.encode(state))) == state_codec.shown(state)


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
    assert state_codec.decode(worker.checkpoint()[SESSION.encode()] or b"").control.killed is not None
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
    assert kept.control.killed is not None
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


NAMES = sorted({
    *tool_classifier.TARGET_ARGS, *destructive_shapes.TELLING,
    *tool_classifier._CWD_ARGS, *call_changes._FROM_ARGS, *call_changes._TO_ARGS,
    *(name for names in tool_classifier._TEXT_ARGS.values() for name in names),
    "method", "timestamp", "request_id", "thought", "patch", "language", "pattern", "overwrite", "limit", "dry_run",
    "variables", "x", "",
})  # fmt: skip
ACTIONS = sorted({
    *(tool.match.replace("*", "x") for tool in tool_classifier.BUILT_IN),
    *tool_classifier._PROGRAMS, "str_replace_editor", "call_tool", "batch", "http_request", "browse",
    "mcp__fs__move_file",
    "odd", "Ünïcode工具", "a" * 200,
})  # fmt: skip
TEXTS = st.text(max_size=40) | st.sampled_from((
    "rm -rf /srv/x", "DROP TABLE t;", "cat <<'EOF' > /a/b\n$(x)\nEOF", "DELETE", "../..", "~", "'", "git push -f \\",
    "\x00", "deleted", '{"name": "delete_asset", "arguments": {"asset_id": 1e999}}', "[" * 50, "[1, 2]", "/srv/x",
    "mutation { deleteUser(id: 1) { id } }", "*** Begin Patch\n*** Delete File: a\n*** Add File: b\n+x", "mv a b",
    "import shutil; shutil.rmtree('/srv')", "while true; do sleep 1; done", "%s %(x)s {} {0}", "http://[::1/", "\u2028",
    "find / -name '*' -exec rm {} +", "echo $((1/0)) `", "kubectl delete ns x", "cd '/", "-", "delete_asset",
))  # fmt: skip
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
USAGES = st.fixed_dictionaries({}, optional=dict.fromkeys(("input_tokens", "output_tokens"), st.integers(0, 2**53)))
LEVELS = (Level.PAUSE, Level.PAUSE, Level.ROLLBACK, Level.THROTTLE, Level.REINFORCE, Level.BLOCK)
CHANGES = Modification(action="*", put={"dry_run": True}, cap={"limit": 10.0}, remove=("overwrite",))
STOPPING = Policy(
    rules={rule.id: Rule(levels=dict.fromkeys(Severity, LEVELS[number % 6])) for number, rule in enumerate(ALL)},
    interventions=Interventions(modifications=(CHANGES,)),
)
CORES = [
    pytest.param(Core(Policy()), id="the default policy"),
    pytest.param(Core(STOPPING), id="a policy that stops and changes calls"),
]


@st.composite
def calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {
        "action": draw(st.sampled_from(ACTIONS)),
        "args": draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)),
        "call_id": draw(st.sampled_from(("c", "d"))),
        "model": draw(VALUES),
        "await_verdict": draw(st.booleans()),
    }
    result: dict[str, Any] = {
        "outcome": draw(st.sampled_from(("ok", "error", "timeout", "refused"))),
        "error": draw(st.none() | TEXTS),
    }
    result |= {"output_head": draw(st.none() | TEXTS), "usage": draw(USAGES)}
    return [fields | {"kind": "action.proposed"}, fields | result | {"kind": "action.completed"}]


@pytest.mark.parametrize("core", CORES)
@settings(max_examples=30)
@given(
    calls=st.lists(calls(), min_size=1, max_size=4), answer=st.sampled_from(("approve", "reject", "ask", "withdraw"))
)
def test_any_arguments_are_taken_in_and_the_state_comes_back(
    core: Core, calls: list[list[dict[str, Any]]], answer: str
) -> None:
    state: SessionState | None = None
    for number, event in enumerate(event for call in calls for event in (*call, call[0])):  # each is tried again
        head = {"event_id": f"e{number}", "session_id": "s", "agent_id": "a", "time": T0_MS + number * 1000}
        outcome = core.on_event(state, decode_event(json.dumps(head | event).encode()))
        state = kept(outcome)
        decision = outcome.decision
        if decision is not None and decision.approval is not None:
            seen = {"request_id": decision.approval.request_id, "nonce": decision.approval.nonce}
            said = {"command_id": f"k{number}", "kind": answer, "id": "s", "by": "ada", "reason": "why?"}
            command = Command.model_validate(said | seen | {"time": T0_MS + number * 1000})
            state = kept(core.on_command(state, command))
    assert state is not None
    for _ in range(5):
        state = kept(core.on_tick(state, max(state.due_ms, T0_MS)))


def kept(outcome: Effects) -> SessionState:
    """The state after what was decided, as it comes back; all that is said can be written, and read again."""
    assert outcome.failures == ()
    for decision in (outcome.decision, *outcome.also):
        if decision is not None:
            assert decode(Decision, decision.to_json()) == decision
    for record in (*outcome.detections, *outcome.signals, *([outcome.control] if outcome.control else [])):
        assert record.to_json()
    again = state_codec.decode(state_codec.encode(outcome.state))
    assert state_codec.shown(again) == state_codec.shown(outcome.state)
    return again
