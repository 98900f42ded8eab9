"""An agent of Pydantic AI with the capability."""

import asyncio
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.pydantic_ai import HaltlineCapability
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Run, Script, stops

ADAPTER = "pydantic-ai"
LACKS = frozenset(
    {"reads_errors", "subagents"}
)  # a tool's exception ends the run; ToolFailed and ModelRetry are the model's
SYNC = ASYNC = True


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    seen = Run()
    turns = iter([*script, []])

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.turns += 1
        seen.read = []
        for message in messages[1:]:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    seen.read.append(part.model_response_str(wrap_if_error=False))
                elif isinstance(part, UserPromptPart):
                    seen.read[-1] += f"\n{part.content}"
        calls = [ToolCallPart(call.name, call.args, tool_call_id=call.id) for call in next(turns)]
        usage = RequestUsage(input_tokens=INPUT, output_tokens=OUTPUT, cache_read_tokens=CACHED)
        return ModelResponse(parts=[*calls] or [TextPart(END)], usage=usage)

    agent: Any = Agent(FunctionModel(model), tools=TOOLS, capabilities=[HaltlineCapability(guard, effects=EFFECTS)])
    with stops(seen):
        _ = asyncio.run(agent.run("work")) if is_async else agent.run_sync("work")
    return seen
