"""OpenAI Agents SDK: a guardrail for tools, and hooks for runs.

    haltline = HaltlineAgents(guard)
    agent = Agent(name="cleaner", tools=haltline.guarded([delete_asset, list_assets]))
    await Runner.run(agent, "tidy up", hooks=haltline.hooks)

Before a tool runs, its input guardrail asks the guard: a refused call is answered with the refusal, which the model
reads; when the session was stopped, the run ends with `ToolInputGuardrailTripwireTriggered`. The hooks tell of the
model's turns and of results, and end a stopped session before its next turn (Refused). Hosted tools run elsewhere, and
cannot be guarded.
Needs openai-agents (`pip install 'haltline[openai-agents]'`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agents import Agent, FunctionTool, ModelResponse, RunContextWrapper, RunHooks, Tool
from agents.tool_context import ToolContext
from agents.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.call_registry import Answer, CallRegistry
from haltline.schemas.events import Effect, Usage


class HaltlineAgents:
    """A guard for the runs of one session."""

    def __init__(self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> None:
        """`effects` says, by name, what tools do whose names do not tell."""
        self._registry = CallRegistry(guard)
        self._effects = dict(effects or {})
        self._answers: dict[str, Answer] = {}
        self.hooks = _Hooks(guard, self._registry, self._answers)
        """For `Runner.run(..., hooks=...)`."""

    def guarded(self, tools: Iterable[Tool]) -> list[Tool]:
        """The same tools behind the guard; those that are no functions run elsewhere, and stay as they are."""
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
        args = _arguments(call.tool_arguments)
        answer = await self._registry.propose_async(
            call.tool_call_id, call.tool_name, args, effect=self._effects.get(call.tool_name)
        )
        if answer.refused is None and answer.changes:
            # The SDK has no way to change the arguments of a call; with those that were proposed it must not be made.
            changed = json.dumps(answer.changes.of(args))
            self._registry.complete(call.tool_call_id, error="not made: other arguments were required")
            message = f"This call is only allowed with other arguments: {changed}"
            text = "\n\n".join(filter(None, (message, answer.hints)))
            return ToolGuardrailFunctionOutput.reject_content(text, output_info="arguments_not_changed")
        if answer.refused is None:
            if answer.hints:
                self._answers[call.tool_call_id] = answer
            return ToolGuardrailFunctionOutput.allow()
        if self._registry.guard.killed:
            return ToolGuardrailFunctionOutput.raise_exception(output_info=str(answer.refused))
        return ToolGuardrailFunctionOutput.reject_content(answer.refusal, output_info=answer.refused.code)

    async def _after(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        answer = self._answers.pop(data.context.tool_call_id, None)
        self._registry.complete(data.context.tool_call_id, data.output)
        if answer is None:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(f"{data.output}\n\n{answer.hints}", output_info="hint")


class _Hooks(RunHooks[Any]):
    """Publishes what the guardrails do not see."""

    def __init__(self, guard: Guard, registry: CallRegistry, answers: dict[str, Answer]) -> None:
        self._guard = guard
        self._registry = registry
        self._answers = answers

    async def on_llm_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Raises Refused when the session was stopped: no more tokens are spent."""
        self._guard.check()

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Publishes the model's turn."""
        self._guard.model_turn(usage=usage_of(response))

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        """Publishes the end of a call that failed: the SDK calls no guardrail then."""
        if isinstance(context, ToolContext):
            self._registry.complete(context.tool_call_id, result if isinstance(result, str) else None)
            if (unheard := self._answers.pop(context.tool_call_id, None)) is not None:
                self._registry.keep(unheard.hints)

    async def on_agent_end(self, context: Any, agent: Agent[Any], output: Any) -> None:
        """What has not ended now has no end."""
        self._registry.abandon()


def usage_of(response: ModelResponse) -> Usage:
    """The tokens of a turn. The SDK counts what came from the cache as input too."""
    used = response.usage
    cached = used.input_tokens_details.cached_tokens or 0
    return Usage(
        input_tokens=max(used.input_tokens - cached, 0), output_tokens=used.output_tokens, cache_read_tokens=cached
    )


def _arguments(text: str) -> dict[str, Any]:
    try:
        args = json.loads(text or "{}")
    except ValueError:
        return {"arguments": text}
    return args if isinstance(args, dict) else {"arguments": args}
