"""An agent of the OpenAI Agents SDK with its tools behind the guard."""

import asyncio
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    ToolInputGuardrailTripwireTriggered,
    Usage,
    function_tool,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_usage import InputTokensDetails

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.openai_agents import HaltlineAgents
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Call, Run, Script, why

ADAPTER = "openai-agents"
# The SDK gives the model a message about a tool's error, and the guardrails see no other result than that.
LACKS = frozenset({"changes_arguments", "reports_errors", "error_texts", "subagents"})
SYNC, ASYNC = False, True


class Scripted(Model):
    def __init__(self, script: Script) -> None:
        self.run = Run()
        self._turns = iter([*script, []])

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002 - the SDK's name
        self.run.turns += 1
        if isinstance(input, list):
            self.run.read = [str(i["output"]) for i in input if i.get("type") == "function_call_output"]
        used = Usage(
            requests=1,
            input_tokens=INPUT,
            output_tokens=OUTPUT,
            input_tokens_details=InputTokensDetails(cached_tokens=CACHED, cache_write_tokens=0),
        )
        calls = [called(call) for call in next(self._turns)]
        text = ResponseOutputText(type="output_text", text=END, annotations=[])
        end = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[*calls] or [end], usage=used, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def called(call: Call) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", call_id=call.id, name=call.name, arguments=call.written)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    haltline = HaltlineAgents(guard, effects=EFFECTS)
    model = Scripted(script)
    tools = haltline.guarded([function_tool(tool) for tool in TOOLS])
    agent = Agent(name="a", model=model, tools=tools)
    try:
        asyncio.run(
            Runner.run(agent, "work", hooks=haltline.hooks, run_config=RunConfig(tracing_disabled=True), max_turns=20)
        )
    except ToolInputGuardrailTripwireTriggered as stopped:
        model.run.stopped = str(stopped.output.output_info)
    except Exception as error:
        model.run.stopped = why(error)
    return model.run
