"""LlamaIndex: agents of workflows (FunctionAgent, ReActAgent, AgentWorkflow) behind a guard.

    agent = guarded(FunctionAgent(tools=[delete_asset], llm=llm), guard)

A refused call is answered with an error that the model reads; when the session was stopped, Refused ends the run: an
exception inside a tool would only become its output. Hints are added to the output of their call. Needs
llama-index-core (`pip install 'haltline[llama-index]'`).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import AsyncBaseTool, ToolOutput

from haltline.interventions.agent.frame.calls import Results, call_async, turn_async, usage_as_counted
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.guard import Guard
from haltline.schemas.events import Effect, Usage

W = TypeVar("W", BaseWorkflowAgent, AgentWorkflow)


def guarded(workflow: W, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> W:
    """Put the agent behind the guard, and return it. `effects`: those of tools whose names do not show them."""
    session = FrameworkSession(guard, effects=effects)
    call_tool = workflow._call_tool

    async def call(ctx: Any, tool: AsyncBaseTool, tool_input: dict[str, Any]) -> ToolOutput:
        name = tool.metadata.get_name()
        results = Results[ToolOutput](
            lambda denied: ToolOutput(
                content=denied.text, tool_name=name, raw_input=tool_input, raw_output=denied.text, is_error=True
            ),
            output=lambda made: (made.content, (made.exception or made.content) if made.is_error else None),
            hinted=_hinted,
        )
        return await call_async(
            session,
            results,
            (None, name, tool_input),
            lambda allowed: call_tool(ctx, tool, allowed.args if allowed.changed else tool_input),
        )

    _put(workflow, "_call_tool", call)
    for agent in workflow.agents.values() if isinstance(workflow, AgentWorkflow) else [workflow]:
        _guard_turns(agent, session)
    return workflow


def _guard_turns(agent: BaseWorkflowAgent, session: FrameworkSession) -> None:
    take_step = agent.take_step

    async def step(*args: Any, **options: Any) -> Any:
        return await turn_async(
            session, lambda: take_step(*args, **options), lambda said: (usage_of(said.raw), said.response.content)
        )

    _put(agent, "take_step", step)


def usage_of(raw: Any) -> Usage | None:
    """Return the tokens of a turn from the response of the model's provider, counted like OpenAI or Anthropic."""
    used = raw.get("usage") if isinstance(raw, dict) else None
    return usage_as_counted(used) if isinstance(used, dict) else None


def _hinted(output: ToolOutput, hints: str) -> ToolOutput:
    output.blocks.append(TextBlock(text=hints))
    return output


def _put(workflow: Any, name: str, function: Any) -> None:
    object.__setattr__(workflow, name, function)  # agents are pydantic models, which accept fields only
