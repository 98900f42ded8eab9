import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from haltline.interventions.agent.integrations.hooks.dialects import INTERRUPTS
from haltline.interventions.agent.integrations.hooks.handler import HookHandler
from haltline.interventions.agent.integrations.hooks.installed import Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.interventions.agent.testing import ScriptedGuard, Verdict
from haltline.schemas.decisions import Level
from haltline.schemas.events import Kind, Outcome
from tests.builders import cases
from tests.interventions.agent.attempts import block, hint, list_instead, pause
from tests.interventions.agent.integrations.test_hooks import Hooks as OfClaudeCode
from tests.programs import ended

Hook = dict[str, Any]
_CALL: Hook = {"session_id": "s1", "hook_event_name": "PreToolUse", "tool_input": {"command": "ls"}}
_WHERE: Hook = {"transcript_path": "/x", "cwd": "/"}
_CODEX: Hook = {"turn_id": "t", "model": "gpt-5-codex", "permission_mode": "default"}
CODEX: Hook = _CALL | _WHERE | _CODEX | {"tool_name": "Bash", "tool_use_id": "c1"}
_GEMINI: Hook = {"timestamp": "2026-11-26T09:00:00Z", "hook_event_name": "BeforeTool"}
GEMINI: Hook = _CALL | _WHERE | _GEMINI | {"tool_name": "run_shell_command"}
_BASE: Hook = {"clineVersion": "3.40", "timestamp": "1", "taskId": "s1", "workspaceRoots": ["/"], "userId": "u"}
_RUN: Hook = {"toolName": "execute_command", "parameters": {"command": "ls"}}
CLINE: Hook = _BASE | {"hookName": "PreToolUse", "preToolUse": _RUN}
OPENCODE: Hook = _CALL | {"tool_name": "bash", "tool_use_id": "c1"}
CALLS: dict[str, Hook] = {"codex": CODEX, "gemini-cli": GEMINI, "cline": CLINE, "opencode": OPENCODE}
RESULTS: dict[str, Hook] = {
    "codex": CODEX | {"hook_event_name": "PostToolUse", "tool_response": "a.txt"},
    "gemini-cli": GEMINI
    | {"hook_event_name": "AfterTool", "tool_response": {"llmContent": "a.txt", "returnDisplay": ""}},
    "cline": _BASE
    | {"hookName": "PostToolUse"}
    | {"postToolUse": {**_RUN, "result": "a.txt", "success": True, "executionTimeMs": 5}},
    "opencode": OPENCODE | {"hook_event_name": "PostToolUse", "tool_response": "a.txt"},
}
FAILED: dict[str, Hook] = {
    "gemini-cli": RESULTS["gemini-cli"] | {"tool_response": {"llmContent": "", "error": {"message": "no"}}},
    "cline": RESULTS["cline"] | {"postToolUse": {**_RUN, "result": "no", "success": False}},
}


class Hooks(OfClaudeCode):
    def __init__(self, agent: str, verdict: Verdict = Level.ALLOW) -> None:
        super().__init__(verdict)
        self.agent = agent
        self._handler = HookHandler(lambda *_: self.sessions, Stored(Path("/nowhere")), Installed({}))

    @property
    def guard(self) -> ScriptedGuard:
        return self.guards["s1"]

    def __call__(self, hook: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]  # each has its own names
        reply = asyncio.run(self._handler.reply(self.agent, json.dumps(hook).encode()))
        head, _, texts = reply.partition(b"\n")
        code, out, _ = map(int, head.split())
        assert code in {0, INTERRUPTS if self.agent == "codex" else 0}, texts
        self.code = code
        return dict(json.loads(texts[:out] or b"{}"))


DENIED = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
BLOCKED = {**DENIED, "permissionDecisionReason": "Not this."}
PAUSED = "A person is asked."


@cases(
    "agent, verdict, expected",
    {
        "codex is denied": ("codex", block, {"hookSpecificOutput": BLOCKED}),
        "codex is not asked, as a question would count as a yes": (
            "codex", pause, {"hookSpecificOutput": {**DENIED, "permissionDecisionReason": PAUSED}}),
        "gemini is denied": ("gemini-cli", block, {"decision": "deny", "reason": "Not this."}),
        "gemini gets other arguments": (
            "gemini-cli", list_instead,
            {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": {"command": "ls -l"}}}),
        "cline is denied": ("cline", block, {"cancel": True, "errorMessage": "Not this."}),
        "cline cannot change arguments": (
            "cline", list_instead,
            {"cancel": True, "contextModification": "Only this way.",
             "errorMessage": 'This call is only allowed with other arguments: {"command": "ls -l"}'}),
        "cline hears a hint": ("cline", hint, {"cancel": False, "contextModification": "Think again."}),
        "cline goes on": ("cline", Level.ALLOW, {"cancel": False}),
        "opencode is denied": ("opencode", block, {"hookSpecificOutput": BLOCKED}),
    },
)  # fmt: skip
def test_each_agent_reads_the_verdict_on_its_call(agent: str, verdict: Verdict, expected: dict[str, Any]) -> None:
    assert Hooks(agent, verdict)(CALLS[agent]) == expected


def test_codex_gets_other_arguments_only_with_allow() -> None:
    output = Hooks("codex", list_instead)(CODEX)["hookSpecificOutput"]
    assert (output["permissionDecision"], output["updatedInput"]) == ("allow", {"command": "ls -l"})


@pytest.mark.parametrize("agent", [*CALLS])
def test_a_kill_ends_the_turn_as_far_as_the_agent_can(agent: str) -> None:
    hooks = Hooks(agent)
    hooks(CALLS[agent])
    hooks.guard.kill()
    out = hooks(CALLS[agent])
    if agent == "codex":  # with `continue` its denial would not count
        assert "continue" not in out
        assert out["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert hooks.code == INTERRUPTS
        out = hooks(RESULTS[agent])
    assert out.get("continue") is False or out["cancel"] is True


@pytest.mark.parametrize("agent", [*CALLS])
def test_a_call_and_its_result_are_joined(agent: str) -> None:
    hooks = Hooks(agent)
    for hook in (CALLS[agent], RESULTS[agent]):
        hooks(hook)
    events = [e for e in hooks.guard.events if e.kind in {Kind.PROPOSED, Kind.COMPLETED}]
    assert [(e.session_id, e.args) for e in events] == [("s1", {"command": "ls"})] * 2
    assert (events[0].call_id, events[1].outcome, events[1].output_head) == (events[1].call_id, Outcome.OK, "a.txt")


@pytest.mark.parametrize("agent", [*FAILED])
def test_a_call_that_failed_is_told(agent: str) -> None:
    hooks = Hooks(agent)
    for hook in (CALLS[agent], FAILED[agent]):
        hooks(hook)
    assert hooks.guard.events[-1].outcome is Outcome.ERROR


def test_cline_s_command_line_has_other_names_and_the_results_of_several_commands() -> None:
    of_call = {"id": "call_1", "name": "run_commands", "input": {"commands": ["ls", "ls b"]}}
    texts = {"toolName": "run_commands", "parameters": {"commands": '["ls", "ls b"]'}}
    output = [
        {"query": "ls", "result": "a.txt", "success": True},
        {"query": "ls b", "result": "no b", "success": False},
    ]
    call = _BASE | {"hookName": "tool_call", "tool_call": of_call, "preToolUse": texts}
    result = _BASE | {"hookName": "tool_result", "tool_result": of_call | {"output": output}}
    hooks = Hooks("cline")
    assert hooks(_BASE | {"hookName": "agent_start", "taskStart": {}}) == {"cancel": False}
    assert hooks(call) == {"cancel": False}
    hooks(result | {"postToolUse": texts | {"result": json.dumps(output), "success": True}})
    proposed, completed = (e for e in hooks.guard.events if e.kind in {Kind.PROPOSED, Kind.COMPLETED})
    assert (proposed.args, proposed.call_id) == ({"commands": ["ls", "ls b"]}, completed.call_id)
    assert (completed.outcome, completed.error) == (Outcome.ERROR, "ToolFailed: no b")
    assert Hooks("cline", block)(call) == {"cancel": True, "errorMessage": "Not this."}


def test_gemini_hears_a_hint_with_the_result_once() -> None:
    hooks = Hooks("gemini-cli", hint)
    assert hooks(GEMINI) == {}
    output = hooks(RESULTS["gemini-cli"])["hookSpecificOutput"]
    assert output == {"hookEventName": "AfterTool", "additionalContext": "Think again."}
    assert hooks(RESULTS["gemini-cli"]) == {}


PLUGIN = """
import { Haltline } from %s;
let aborted = 0;
process.argv.push("run");
const hooks = await Haltline({ client: { session: { abort: async () => { aborted += 1; } } } });
const outcome = [];
for (const [tool, callID] of [["look", "c1"], ["change", "c2"], ["deny", "c3"], ["kill", "c4"], ["broken", "c5"]]) {
  const output = { args: { a: 1 } };
  try {
    await hooks["tool.execute.before"]({ tool, sessionID: "s1", callID }, output);
    const after = { output: "result" };
    await hooks["tool.execute.after"]({ tool, sessionID: "s1", callID }, after);
    outcome.push([output.args.a, after.output]);
  } catch (error) {
    outcome.push(error.message);
  }
}
try {
  await hooks["chat.message"]({ sessionID: "s1" }, { parts: [{ type: "text", text: "go on" }] });
} catch (error) {
  outcome.push(error.message);
}
console.log(JSON.stringify([outcome, aborted]));
"""
ANSWERS = """
import json, sys
hook = json.load(sys.stdin)
said = {
    "look": {"additionalContext": "Think again."},
    "change": {"permissionDecision": "ask", "updatedInput": {"a": 2}},
    "deny": {"permissionDecision": "deny", "permissionDecisionReason": "no"},
    "kill": {"permissionDecision": "deny", "permissionDecisionReason": "stopped"},
}
if hook["hook_event_name"] == "PreToolUse":
    if hook["tool_name"] == "broken":
        print("not read", file=sys.stderr)
        sys.exit(2)
    stop = {"continue": False, "stopReason": "stopped"} if hook["tool_name"] == "kill" else {}
    print(json.dumps({"hookSpecificOutput": said[hook["tool_name"]], **stop}))
elif hook["hook_event_name"] == "UserPromptSubmit":
    print(json.dumps({"continue": False, "stopReason": f"still stopped, attended: {hook['is_attended']}"}))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_plugin_of_opencode_refuses_changes_and_ends_as_it_is_answered(tmp_path: Path) -> None:
    source = Path("cli/agent/opencode_plugin.js").read_text(encoding="utf-8")
    plugin, agent = tmp_path / "haltline.mjs", tmp_path / "agent.mjs"
    plugin.write_text(source.replace("COMMAND = []", f"COMMAND = {json.dumps([sys.executable, '-c', ANSWERS])}"))
    agent.write_text(PLUGIN % json.dumps(str(plugin)))
    done = ended("node", agent)
    still = "still stopped, attended: False"
    expected = [[1, "result\n\nThink again."], [2, "result"], "no", "stopped", "not read\n", still]
    assert (done.stderr, json.loads(done.stdout)) == (f"stopped\n{still}\n", [expected, 2])
