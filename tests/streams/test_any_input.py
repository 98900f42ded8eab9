"""Whatever a producer puts where any JSON may stand, the core takes it in, and its state can be kept.

Also where a policy stops each finding for a person, changes calls and says payloads, and an operator answers.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors import ALL
from haltline.detectors.commands import destructive_shapes
from haltline.detectors.features import tool_classifier
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import Interventions, Modification
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.wire import decode, decode_event
from haltline.streams.engine.core import Core, Effects, SessionState
from haltline.streams.sessions import state_codec
from tests.builders import T0_MS

NAMES = sorted({
    *tool_classifier.TARGET_ARGS, *destructive_shapes.TELLING,
    *tool_classifier._CWD_ARGS, *tool_classifier._FROM_ARGS, *tool_classifier._TO_ARGS,
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

STOPPING = Policy(
    rules={
        detector.id: Rule(levels=dict.fromkeys(Severity, level))
        for number, detector in enumerate(ALL)
        for level in [
            (Level.PAUSE, Level.PAUSE, Level.ROLLBACK, Level.THROTTLE, Level.REINFORCE, Level.BLOCK)[number % 6]
        ]
    },
    interventions=Interventions(
        modifications=(Modification(action="*", put={"dry_run": True}, cap={"limit": 10.0}, remove=("overwrite",)),)
    ),
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
@settings(max_examples=50)
@given(
    calls=st.lists(calls(), min_size=1, max_size=4), answer=st.sampled_from(("approve", "reject", "ask", "withdraw"))
)
def test_any_arguments_are_taken_in_and_the_state_comes_back(
    core: Core, calls: list[list[dict[str, Any]]], answer: str
) -> None:
    state: SessionState | None = None
    for number, event in enumerate(event for call in calls for event in (*call, call[0])):  # each is tried again
        head = {"event_id": f"e{number}", "session_id": "s", "agent_id": "a", "time": T0_MS + number * 1000}
        outcome = core.on_event(state, decode_event(_json(head | event)))
        state = kept(outcome)
        decision = outcome.decision
        if decision is not None and decision.approval is not None:
            state = kept(core.on_command(state, _answer(answer, decision, T0_MS + number * 1000)))
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
    assert again == outcome.state
    return again


def _answer(kind: str, decision: Decision, time_ms: int) -> Command:
    assert decision.approval is not None
    return Command(
        command_id=f"k{time_ms}",
        kind=CommandKind(kind),
        id="s",
        by="ada",
        reason="why?",
        time=time_ms,
        request_id=decision.approval.request_id,
        nonce=decision.approval.nonce,
    )


def _json(value: dict[str, Any]) -> bytes:
    """With whole numbers of any size, which orjson does not write."""
    return json.dumps(value).encode()
