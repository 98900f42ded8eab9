"""Pydantic AI: a capability of an agent.

    agent = Agent(model, tools=[delete_asset], capabilities=[HaltlineCapability(guard)])

Each call of a tool goes through the guard. A refused one is answered with a failed result that the model reads, and
spends nothing of a tool's retries; when the session was stopped, Refused ends the run. Hints are added to the result
of their call. Tools that the model's provider runs cannot be guarded.
Needs pydantic-ai (`pip install 'haltline[pydantic-ai]'`).
"""

from typing import Any

from pydantic_ai import RunContext, ToolDefinition, ToolFailed
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext

from haltline.interventions.agent.frame.calls import Adapter, Results, call_async, hinted_text
from haltline.interventions.agent.frame.session import Denied, tokens


class HaltlineCapability(Adapter, AbstractCapability[Any]):
    """Passes every tool call and model turn through a guard. One guard is one session."""

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        """Check a call of a tool. Raises Refused if the session was stopped, and ToolFailed for a refused call."""

        def hinted(result: Any, hints: str) -> Any:
            if not isinstance(result, str):
                ctx.enqueue(hints)  # the model reads it before its next turn
                return result
            return hinted_text(result, hints)

        return await call_async(
            self._session,
            Results[Any](_fail, hinted=hinted),
            (call.tool_call_id, call.tool_name, args),
            lambda allowed: handler(allowed.args if allowed.changed else args),
        )

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        await self._session.before_turn_async()
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Publish the model's turn."""
        used = response.usage
        self._session.turn(tokens(used.input_tokens, used.output_tokens, used.cache_read_tokens), response.text)
        return response


def _fail(denied: Denied) -> None:
    raise ToolFailed(denied.text)
