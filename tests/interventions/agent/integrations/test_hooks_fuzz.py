import asyncio
import json
import socket
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from haltline.cli.agent import hook as command
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.claude_code.companion import Companion
from haltline.interventions.agent.integrations.claude_code.hooks import Sessions
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind
from tests.waiting import wait_until

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop")
NAMES = ["tool_use_id", "tool_input", "tool_response", "error", "agent_id", "agent_type", "transcript_path"]
NAMES += ["agent_transcript_path", "permission_mode", "source", "prompt", "command", "x"]
LEAF = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    LEAF | st.sampled_from(("Bash", "delete_x", "t1", "/etc", "/no/such", "\x00")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
HOOKS = st.fixed_dictionaries(
    {
        "session_id": st.sampled_from(("s1", "s2")) | LEAF,
        "hook_event_name": st.sampled_from(EVENTS) | LEAF,
        "tool_name": st.sampled_from(("Bash", "Read", "mcp__x__delete")) | VALUES,
    },
    optional=dict.fromkeys(NAMES, VALUES),
)
GOOD = {"session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
INPUTS = st.binary(max_size=20) | HOOKS.map(lambda hook: json.dumps(hook).encode())
SETTINGS = GuardSettings(bootstrap="scripted", mode="blocking", budget_s=0.05, approval_wait_s=0)


def hook_output(path: Path, data: bytes) -> Any:
    """What a companion answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return json.loads(b"".join(iter(lambda: connection.recv(65_536), b"")))


def test_any_hook_is_answered_and_every_call_of_a_tool_is_checked(tmp_path: Path) -> None:
    guards: list[ScriptedGuard] = []

    def guard(with_settings: GuardSettings, /, *, parent: Guard | None) -> ScriptedGuard:
        guards.append(ScriptedGuard(settings=with_settings, parent=parent))
        return guards[-1]

    path = tmp_path / "s.sock"
    calls = 0

    def ask_all() -> None:
        wait_until(path.exists, "the companion serves")

        @given(data=INPUTS)
        @example(data=json.dumps(GOOD).encode())
        @settings(max_examples=40, suppress_health_check=list(HealthCheck))
        def any_hook(data: bytes) -> None:
            nonlocal calls
            answer = hook_output(path, data)
            assert set(answer) in ({"out"}, {"error"})
            if "error" in answer:
                assert answer["error"]
            elif json.loads(data)["hook_event_name"] == "PreToolUse":
                calls += 1

        any_hook()

    async def run() -> None:
        serving = asyncio.create_task(Companion(Sessions(SETTINGS, guard=guard), path).serve())
        await asyncio.to_thread(ask_all)
        end = json.dumps({"session_id": "s1", "hook_event_name": "SessionEnd"}).encode()
        await asyncio.to_thread(hook_output, path, end)
        await serving

    asyncio.run(run())
    assert calls > 0
    assert len([e for g in guards for e in g.events if e.kind is Kind.PROPOSED]) == calls


@given(st.lists(st.sampled_from((*command.OPTIONS, "--bootstrap=x", "--no-such", "x", "")), max_size=4))
def test_any_options_are_read_or_reported(arguments: list[str]) -> None:
    try:
        read, reported = command.environment(arguments), "expected nothing"
    except ValueError as why:
        read, reported = {}, str(why)
    assert "expected" in reported
    assert set(read) <= set(command.OPTIONS.values())
