"""LlamaIndex: agents of workflows (FunctionAgent, ReActAgent, AgentWorkflow) behind a guard.

    agent = guarded(FunctionAgent(tools=[delete_asset], llm=llm), guard)

A refused call is answered with an error that the model reads; when the session was stopped, Refused ends the run: what
is raised inside a tool would only become its output. Hints are added to the output of their call.
Needs llama-index-core (`pip install 'haltline[llama-index]'`).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import AsyncBaseTool, ToolOutput

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.framework_session import Denied, FrameworkSession, tokens
from haltline.schemas.events import Effect, Usage

W = TypeVar("W", BaseWorkflowAgent, AgentWorkflow)


def guarded(workflow: W, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> W:
    """The agent itself, from now on behind the guard. `effects` says what tools do whose names do not tell."""
    session = FrameworkSession(guard, effects=effects)
    call_tool = workflow._call_tool

    async def call(ctx: Any, tool: AsyncBaseTool, tool_input: dict[str, Any]) -> ToolOutput:
        name = tool.metadata.get_name()
        verdict = await session.before_async(None, name, tool_input)
        if isinstance(verdict, Denied):
            return ToolOutput(
                content=verdict.text, tool_name=name, raw_input=tool_input, raw_output=verdict.text, is_error=True
            )
        with session.reporting(verdict.call_id):
            output = await call_tool(ctx, tool, verdict.args if verdict.changed else tool_input)
        failed = (output.exception or output.content) if output.is_error else None
        hints = session.after(verdict.call_id, output.content, error=failed)
        if hints:
            output.blocks.append(TextBlock(text=hints))
        return output

    _put(workflow, "_call_tool", call)
    for agent in workflow.agents.values() if isinstance(workflow, AgentWorkflow) else [workflow]:
        _guard_turns(agent, session)
    return workflow


def _guard_turns(agent: BaseWorkflowAgent, session: FrameworkSession) -> None:
    take_step = agent.take_step

    async def step(*args: Any, **options: Any) -> Any:
        await session.before_turn_async()
        output = await take_step(*args, **options)
        session.turn(usage_of(output.raw), output.response.content)
        return output

    _put(agent, "take_step", step)


def usage_of(raw: Any) -> Usage | None:
    """The tokens of a turn, from what the model's provider has answered: as OpenAI or as Anthropic counts."""
    used = raw.get("usage") if isinstance(raw, dict) else None
    if not isinstance(used, dict):
        return None
    if "prompt_tokens" in used:
        cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens")
        return tokens(used["prompt_tokens"], used.get("completion_tokens"), cached)
    cached = used.get("cache_read_input_tokens") or 0
    uncached = (used.get("input_tokens") or 0) + (used.get("cache_creation_input_tokens") or 0)
    return tokens(uncached + cached, used.get("output_tokens"), cached)


def _put(workflow: Any, name: str, function: Any) -> None:
    object.__setattr__(workflow, name, function)  # agents are models of pydantic, which take fields only
