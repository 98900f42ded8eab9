"""OpenAI Agents SDK: a guardrail for tools, and hooks for runs.

    haltline = HaltlineAgents(guard)
    agent = Agent(name="cleaner", tools=haltline.guarded([delete_asset, list_assets]))
    await Runner.run(agent, "tidy up", hooks=haltline.hooks)

Before a tool runs, its input guardrail calls the guard: a refused call is answered with the refusal, which the model
reads; when the session was stopped, the run ends with `ToolInputGuardrailTripwireTriggered`. The hooks report the
model's turns and results, and end a stopped session before its next turn (Refused). Tools that the
provider runs, and those of `Agent(mcp_servers=...)`, cannot be guarded: put MCP servers behind `haltline mcp-proxy`.
Needs openai-agents (`pip install 'haltline[openai-agents]'`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    FunctionTool,
    LocalShellTool,
    ModelResponse,
    RunContextWrapper,
    RunHooks,
    ShellTool,
    Tool,
)
from agents.tool_context import ToolContext
from agents.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)

from haltline.interventions.agent.frame.session import Denied, FrameworkSession, tokens, with_hints
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Effect, Usage


def _is_local(tool: Tool) -> bool:
    """Return whether a tool runs in this process and supports no guardrail."""
    if isinstance(tool, LocalShellTool | ShellTool):
        return tool.executor is not None  # the provider's shell has none
    has_function = hasattr(tool, "on_invoke_tool") and not isinstance(tool, FunctionTool)
    return has_function or isinstance(tool, ApplyPatchTool | ComputerTool)


class HaltlineAgents:
    """A guard for the runs of one session."""

    def __init__(self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> None:
        """`effects`: the effects of tools, by name, where their names do not show them."""
        # The SDK cannot change the arguments of a call.
        self._session = FrameworkSession(guard, effects=effects, changes_arguments=False)
        self.hooks = _Hooks(self._session)
        """For `Runner.run(..., hooks=...)`."""

    def guarded(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools behind the guard; those that the provider runs are unchanged.

        Raises: ValueError: a tool runs in this process and supports no guardrail, such as one of shell commands.
        """
        tools = list(tools)
        for tool in filter(_is_local, tools):
            raise ValueError(f"tools: expected functions, or tools of the provider, got {type(tool).__name__}")
        before: ToolInputGuardrail[Any] = ToolInputGuardrail(guardrail_function=self._before, name="haltline")
        after: ToolOutputGuardrail[Any] = ToolOutputGuardrail(guardrail_function=self._after, name="haltline")
        return [
            replace(
                tool,
                tool_input_guardrails=[*(tool.tool_input_guardrails or []), before],
                tool_output_guardrails=[after, *(tool.tool_output_guardrails or [])],
            )
            if isinstance(tool, FunctionTool)
            else tool
            for tool in tools
        ]

    async def _before(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        call = data.context
        try:
            verdict = await self._session.before_async(call.tool_call_id, call.tool_name, call.tool_arguments)
        except Refused as stopped:
            return ToolGuardrailFunctionOutput.raise_exception(output_info=str(stopped))
        if isinstance(verdict, Denied):
            return ToolGuardrailFunctionOutput.reject_content(verdict.text, output_info=verdict.code)
        return ToolGuardrailFunctionOutput.allow()

    async def _after(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        hints = self._session.after(data.context.tool_call_id, data.output)
        if not hints:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(with_hints(str(data.output), hints), output_info="hint")


class _Hooks(RunHooks[Any]):
    """Publishes events that the guardrails do not see."""

    def __init__(self, session: FrameworkSession) -> None:
        self._session = session

    async def on_llm_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        await self._session.before_turn_async()

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Publish the model's turn."""
        self._session.turn(usage_of(response), output_of(response))

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        """Publish the end of a failed call: the SDK calls no guardrail for it."""
        if isinstance(context, ToolContext):
            self._session.keep(self._session.after(context.tool_call_id, result if isinstance(result, str) else None))

    async def on_agent_end(self, context: Any, agent: Agent[Any], output: Any) -> None:
        """Give up calls that have not ended."""
        self._session.abandon()


def usage_of(response: ModelResponse) -> Usage:
    """Return the tokens of a turn. The SDK's input includes cached tokens."""
    used = response.usage
    return tokens(used.input_tokens, used.output_tokens, used.input_tokens_details.cached_tokens)


def output_of(response: ModelResponse) -> str:
    """Return the texts of a turn."""
    messages = [item for item in response.output if item.type == "message"]
    return "\n".join(part.text for message in messages for part in message.content if part.type == "output_text")
