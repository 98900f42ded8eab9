"""Google's Agent Development Kit: a plugin of a runner.

    runner = InMemoryRunner(agent, plugins=[HaltlinePlugin(guard)])

Each call of a tool goes through the guard. A refused one gets the reason as its response, which the model reads; when
the session was stopped, the run ends with RuntimeError, whose `__cause__` is Refused. Hints are added to the response
of their call as `haltline`. Tools that run at the model's provider, such as Google Search, cannot be guarded.
Needs google-adk (`pip install 'haltline[google-adk]'`).
"""

from collections.abc import Mapping
from typing import Any

from google.adk.models import LlmRequest, LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.tools import BaseTool, ToolContext

from haltline.interventions.agent.frame.session import Denied, FrameworkSession, tokens
from haltline.interventions.agent.guard import Guard
from haltline.schemas.events import Effect, Usage


class HaltlinePlugin(BasePlugin):
    """Passes every tool call and model turn through a guard. One guard is one session."""

    def __init__(self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> None:
        """`effects`: the effects of tools, by name, where their names do not show them."""
        super().__init__(name="haltline")
        self._session = FrameworkSession(guard, effects=effects)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Check a call of a tool. Raises Refused if the session was stopped."""
        verdict = await self._session.before_async(tool_context.function_call_id, tool.name, tool_args)
        if isinstance(verdict, Denied):
            return {"error": verdict.text}
        if verdict.changed:
            tool_args.clear()
            tool_args.update(verdict.args)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Publish the result, and add the hints to it."""
        whole = result.get("result") if isinstance(result, dict) and result.keys() == {"result"} else result
        hints = self._session.after(tool_context.function_call_id or "", whole)
        if not hints:
            return None
        return {**(result if isinstance(result, dict) else {"result": result}), "haltline": hints}

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: BaseException
    ) -> dict[str, Any] | None:
        """Publish the failure."""
        self._session.failed(tool_context.function_call_id or "", error)
        return None

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        await self._session.before_turn_async()

    async def after_model_callback(self, *, callback_context: Any, llm_response: LlmResponse) -> None:
        """Publish the model's turn; when streaming, at its end."""
        if llm_response.partial:
            return
        parts = (llm_response.content.parts if llm_response.content else None) or []
        self._session.turn(usage_of(llm_response), "".join(part.text for part in parts if part.text))


def usage_of(response: LlmResponse) -> Usage | None:
    """Return the tokens of a turn. The input includes cached tokens; thoughts are counted separately."""
    used = response.usage_metadata
    if used is None:
        return None
    outputs = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
    return tokens(used.prompt_token_count, outputs, used.cached_content_token_count)
