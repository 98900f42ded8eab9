"""A hint reaches the model in every integration that has a way to it: once, in its words, whatever becomes of its call.

Frameworks have this among the conformance cases. What has no way to the model (`haltline watch`, OpenTelemetry,
`publishing`) hands it to `on_advice`, or to nobody.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import orjson
import pytest

from haltline.interventions.agent import Refused
from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.integrations.claude_code.hooks import Sessions
from haltline.interventions.agent.integrations.framework_session import FrameworkSession
from haltline.interventions.agent.integrations.mcp_calls import Calls, Tools
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.schemas.decisions import Level
from haltline.schemas.events import Effect
from haltline.streams.intake.calls import reply_of

HINT = "Think again: the last three results were the same."
LATE = "Read the task again."
ADVICE: list[Advice] = []


@pytest.fixture(autouse=True)
def nothing_was_heard() -> None:
    ADVICE.clear()


def plain(guard: ScriptedGuard, paths: Sequence[str]) -> list[str]:
    """The author's own code: its callback is what tells the model."""
    for path in paths:
        with suppress(ValueError, Refused), guard.action("work", args={"path": path}, effect=Effect.WRITE):
            if path == "bad":
                raise ValueError(path)
    return [advice.message for advice in ADVICE]


def claude_code(guard: ScriptedGuard, paths: Sequence[str]) -> list[str]:
    sessions = Sessions(guard.settings, guard=lambda _: guard)

    async def hooks() -> list[str]:
        received: list[str] = []
        for number, path in enumerate(paths):
            result = {"session_id": "scripted", "tool_use_id": f"t{number}"}
            call = {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"path": path}}
            answer = (await sessions.answer(result | call)).get("hookSpecificOutput", {})
            # Claude reads the reason of what is denied, and otherwise the additional context.
            denied = answer.get("permissionDecision") == "deny"
            received.append(answer.get("permissionDecisionReason" if denied else "additionalContext", ""))
            if not denied:
                ended = "PostToolUseFailure" if path == "bad" else "PostToolUse"
                await sessions.answer(result | {"hook_event_name": ended, "tool_response": "done"})
        return received

    return asyncio.run(hooks())


def mcp(guard: ScriptedGuard, paths: Sequence[str]) -> list[str]:
    calls, received = Calls(FrameworkSession(guard), Tools()), list[str]()
    for number, path in enumerate(paths):
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
        checked = calls.ask(message | {"params": {"name": "write_file", "arguments": {"path": path}}})
        done: dict[str, Any] = {"result": {"content": [{"type": "text", "text": f"done {path}"}]}}
        from_server = {"jsonrpc": "2.0", "id": number} | (
            {"error": {"code": -32000, "message": "no such path"}} if path == "bad" else done
        )
        received.append(orjson.dumps(checked.refusal or calls.answered(from_server) or from_server).decode())
    return received


def intake(guard: ScriptedGuard, paths: Sequence[str]) -> list[str]:
    """Another language's agent gets the verdict as JSON."""
    registry, received = FrameworkSession(guard), list[str]()
    for number, path in enumerate(paths):
        answer = registry.propose(f"c{number}", "work", {"path": path}, effect=Effect.WRITE)
        result = reply_of(answer, f"c{number}", killed=guard.killed)
        received.append(orjson.dumps(result).decode())
        if result["allowed"]:
            registry.complete(f"c{number}", error="no such path" if path == "bad" else None)
    return received


def hint(level: Level = Level.NUDGE) -> Verdict:
    return lambda event: decision(level, event, message=HINT)


def block(event: Any) -> Any:
    return decision(Level.BLOCK, event, code="scope_creep", message="Not this.")


INTEGRATIONS = [plain, claude_code, mcp, intake]


@pytest.mark.parametrize("run", INTEGRATIONS, ids=lambda run: run.__name__)
@pytest.mark.parametrize(
    ("verdicts", "late", "paths"),
    [
        pytest.param([hint()], 0, ["a", "b"], id="with the call that it came with"),
        pytest.param([hint(Level.REINFORCE)], 0, ["a", "b"], id="the task told again"),
        pytest.param([], 1, ["a", "b"], id="that came between two calls"),
        pytest.param([], 2, ["a", "b"], id="that was delivered twice"),
        pytest.param([block], 1, ["a", "b"], id="when the next call is refused"),
        pytest.param([hint(), block], 1, ["a", "b"], id="two of them, one before a refusal"),
    ],
)
def test_a_hint_is_delivered_once(
    run: Callable[[ScriptedGuard, Sequence[str]], list[str]], verdicts: list[Verdict], late: int, paths: list[str]
) -> None:
    guard = ScriptedGuard(*verdicts, on_advice=ADVICE.append)
    for _ in range(late):
        guard.send(decision(Level.NUDGE, _earlier(guard), message=LATE))
    received = "\n".join(run(guard, paths))
    actual = sum(verdict is not block for verdict in verdicts)
    assert (received.count(HINT), received.count(LATE)) == (actual, min(late, 1))


@pytest.mark.parametrize("run", INTEGRATIONS, ids=lambda run: run.__name__)
def test_a_hint_is_delivered_once_though_its_call_fails(
    run: Callable[[ScriptedGuard, Sequence[str]], list[str]],
) -> None:
    assert "\n".join(run(ScriptedGuard(hint(), on_advice=ADVICE.append), ["bad", "b"])).count(HINT) == 1


def _earlier(guard: ScriptedGuard) -> Any:
    guard.start()
    return guard.events[0]
