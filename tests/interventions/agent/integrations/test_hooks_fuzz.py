import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from haltline.cli.agent.hook_request import OPTIONS, environment, request_reply
from haltline.interventions.agent.integrations.hooks.dialects import DIALECTS
from haltline.interventions.agent.integrations.hooks.handler import HookHandler
from haltline.interventions.agent.integrations.hooks.installed import Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.interventions.agent.service.server import Server
from haltline.interventions.agent.service.sessions import Sessions
from haltline.interventions.agent.service.verbs import Verbs
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Kind
from tests.builders import some
from tests.interventions.agent.attempts import of
from tests.interventions.agent.integrations.test_hooks import Hooks
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
CLINE = {"taskId": "s1", "hookName": "PreToolUse", "preToolUse": {"toolName": "x", "parameters": {"a": "b"}}}
INPUTS = st.binary(max_size=20) | HOOKS.map(lambda hook: json.dumps(hook).encode())


@pytest.mark.hypothesis
def test_any_hook_of_any_agent_is_answered_and_every_call_of_a_tool_is_checked(tmp_path: Path) -> None:
    hooks = Hooks()
    tmp_path.chmod(0o700)
    path = tmp_path / "s.sock"
    calls = 0

    def ask_all() -> None:
        wait_until(path.exists, "the service serves")

        @given(agent=st.sampled_from([*DIALECTS]), data=INPUTS)
        @example(agent="claude-code", data=json.dumps(GOOD).encode())
        @example(agent="cline", data=json.dumps(CLINE).encode())
        @example(agent="gemini-cli", data=json.dumps({**GOOD, "hook_event_name": "BeforeTool"}).encode())
        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        def any_hook(agent: str, data: bytes) -> None:
            nonlocal calls
            code, out, err = some(request_reply(str(path), agent, data))
            output = json.loads(out) if out else {}
            assert code == 0 or err
            is_refused = code == 2 or b"deny" in out or output.get("cancel") is True
            try:
                event = DIALECTS[agent].hook_of(data)["hook_event_name"]
            except (ValueError, KeyError):
                event = None
            calls += event == "PreToolUse" and not is_refused

        any_hook()

    async def run() -> None:
        handler = HookHandler(lambda *_: hooks.sessions, Stored(tmp_path / "stored"), Installed({}))
        verbs = Verbs(Sessions(GuardSettings(mode="local"), 1), "1")
        serving = asyncio.create_task(Server(path, verbs, handler, idle_s=None).serve())
        await asyncio.to_thread(ask_all)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(run())
    assert calls > 0
    assert sum(len(of(guard, Kind.PROPOSED)) for guard in hooks.all_guards) == calls


@given(st.lists(st.sampled_from((*OPTIONS, "--for", "--local", "--bootstrap=x", "--no-such", "x", "")), max_size=4))
def test_any_options_are_read_or_reported(arguments: list[str]) -> None:
    try:
        read, reported = environment(arguments), "expected nothing"
    except ValueError as why:
        read, reported = {}, str(why)
    assert "expected" in reported
    assert set(read) <= {*OPTIONS.values(), "HALTLINE_MODE"}
