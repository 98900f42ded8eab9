"""A coding agent whose hooks ask the local service: Claude Code's messages, without its process."""

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from haltline.interventions.agent import Guard
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.integrations.claude_code.hooks import Sessions
from haltline.interventions.agent.integrations.hooks.handler import HookHandler
from haltline.interventions.agent.integrations.hooks.installed import Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from tests.conformance.harness import EFFECTS, TOOL, Call, Run, Script, arguments_or_none

ADAPTER = "haltline"
# Tokens and texts of the model come from its transcript (tests/interventions/agent/integrations/test_transcript.py).
LACKS = frozenset({"usage", "cached_tokens", "model_output", "subagents"})
SYNC, ASYNC = True, False


class Stopped(Exception):
    """A hook has ended the turn."""


class Agent:
    def __init__(self, guard: Guard) -> None:
        class OneGuard(Sessions):
            async def _session(self, _: Mapping[str, Any]) -> FrameworkSession:
                return self._sessions.setdefault(self._main_id, FrameworkSession(guard, effects=EFFECTS))

        sessions = OneGuard(guard.settings)
        self._handler = HookHandler(lambda *_: sessions, Stored(Path(tempfile.mkdtemp())), Installed({}))

    def hook(self, event: str, **fields: Any) -> dict[str, Any]:
        given = {"session_id": "s1", "hook_event_name": event, "permission_mode": "bypassPermissions", **fields}
        reply = asyncio.run(self._handler.reply("claude-code", json.dumps(given).encode()))
        head, _, texts = reply.partition(b"\n")
        answer: dict[str, Any] = json.loads(texts[: int(head.split()[1])] or b"{}")
        if answer.get("continue") is False and event != "PreToolUse":
            raise Stopped(f"session_ {answer['stopReason']}")
        return answer

    def called(self, call: Call) -> str:
        args = arguments_or_none(call.args)
        if args is None:
            return "no JSON"
        said = {"tool_name": call.name, "tool_input": args, "tool_use_id": call.id}
        specific = self.hook("PreToolUse", **said).get("hookSpecificOutput", {})
        if specific.get("permissionDecision") == "deny":
            return str(specific["permissionDecisionReason"])
        hints = [specific["additionalContext"]] if "additionalContext" in specific else []
        try:
            value = TOOL[call.name](**specific.get("updatedInput", args))
        except ValueError as error:
            after = self.hook("PostToolUseFailure", **said, error=str(error))
            text = str(error)
        else:
            after = self.hook("PostToolUse", **said, tool_response=value)
            text = value if isinstance(value, str) else str(value)
        context = after.get("hookSpecificOutput", {}).get("additionalContext")
        return "\n\n".join([text, *hints, *filter(None, [context])])


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    seen, agent = Run(), Agent(guard)
    closed_from = guard.settings.fail_closed_from  # a hook has its settings of the environment
    try:
        os.environ["HALTLINE_FAIL_CLOSED_FROM"] = "none" if closed_from is None else closed_from.value
        agent.hook("UserPromptSubmit", prompt="work")
        with ThreadPoolExecutor(8) as pool:
            for calls in script:
                seen.turns += 1
                seen.read += pool.map(agent.called, calls)
                agent.hook("PostToolBatch")
        seen.turns += 1
    except Stopped as stopped:
        seen.stopped = repr(stopped)
    return seen
