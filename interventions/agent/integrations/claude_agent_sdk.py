"""Claude Agent SDK: hooks of its options.

    options = ClaudeAgentOptions(hooks=haltline_hooks(guard))

Each call of a tool goes through the guard before Claude's own permissions, including calls that these allow anyway and
`can_use_tool` never sees. A refused call is denied with the reason, which the model reads; when the session was
stopped, the run ends (`continue: false`) and `guard.stopped` has the reason. Hints are the hook's `additionalContext`.
Subagents are sessions below this one. For Claude Code in a terminal, `haltline hook install` does this without code.
Needs claude-agent-sdk (`pip install 'haltline[claude-agent-sdk]'`).
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from claude_agent_sdk import HookMatcher

from haltline.interventions.agent.frame.session import Answer, FrameworkSession, not_checked
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.claude_code.hooks import JsonObject, Sessions
from haltline.interventions.agent.integrations.hooks.dialects import denied
from haltline.schemas.events import Effect

log: Final = logging.getLogger("haltline.agent")

_EVENTS: Final = (
    "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop", "SubagentStop",
)  # fmt: skip
_MORE_S: Final = 60.0


def haltline_hooks(guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> dict[Any, list[HookMatcher]]:
    """Return hooks for `ClaudeAgentOptions(hooks=...)`. One guard is one session.

    `effects`: the effects of tools, by name (`mcp__mail__send`), where their names do not show them.
    """
    sessions = _Sessions(guard, effects)

    async def hook(given: Any, *_: Any) -> Any:
        try:
            return await sessions.answer(given)
        except Exception:  # Claude makes a call whose hook fails
            log.exception("haltline: session %s: a hook could not be answered", guard.session_id)
            if given.get("hook_event_name") != "PreToolUse":
                return {}
            return denied(not_checked().reason)

    # Claude makes a call whose hook exceeds its timeout.
    own = guard.settings
    timeout = own.approval_wait_s + own.start_budget_s + max(own.first_budget_s, own.budget_s) + _MORE_S
    return {event: [HookMatcher(hooks=[hook], timeout=timeout)] for event in _EVENTS}


class _Sessions(Sessions):
    """The sessions of one guard and of the subagents below it."""

    def __init__(self, guard: Guard, effects: Mapping[str, Effect | str] | None) -> None:
        super().__init__(guard.settings)
        self._main = FrameworkSession(guard, effects=effects)

    @property
    def _main_session(self) -> FrameworkSession:
        return self._main

    async def _session(self, hook: Mapping[str, Any]) -> FrameworkSession:
        subagent, above = hook.get("agent_id"), self._main.guard.settings
        if not isinstance(subagent, str) or not subagent:
            return self._main
        session_id = f"{above.session_id}/{subagent}"[:256]
        if session_id not in self._sessions:
            agent_id = f"{above.agent_id}/{hook.get('agent_type') or 'subagent'}"[:256]
            self._sessions[session_id] = self._main.subagent(session_id=session_id, agent_id=agent_id)
        return self._sessions[session_id]

    def _verdict(self, hook: Mapping[str, Any], answer: Answer) -> JsonObject:
        verdict = super()._verdict(hook, answer)
        output = verdict.get("hookSpecificOutput", {})
        if "updatedInput" in output:  # changed arguments need the program's own permission, like any
            del output["permissionDecision"], output["permissionDecisionReason"]
        return verdict
