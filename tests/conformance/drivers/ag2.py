"""An agent of AG2 with the middleware."""

import asyncio
import json
from typing import Any

from ag2 import Agent
from ag2.config import LLMClient, ModelConfig
from ag2.events import ModelMessage, ModelResponse, ToolCallEvent, ToolCallsEvent, ToolResultsEvent, Usage

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.ag2 import HaltlineMiddleware
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Call, Run, Script, stops

ADAPTER = "ag2"
LACKS = frozenset({"subagents"})
SYNC, ASYNC = False, True


class Scripted(ModelConfig, LLMClient):
    provider = model = "scripted"  # type: ignore[assignment]  # properties of the base

    def __init__(self, script: Script) -> None:
        self.run = Run()
        self._turns = iter([*script, []])

    def copy(self) -> Any:
        return self

    def create(self) -> Any:
        return self

    def create_files_client(self) -> Any:
        raise NotImplementedError

    async def __call__(self, messages: Any, context: Any, **options: Any) -> ModelResponse:
        self.run.turns += 1
        results = [one for message in messages if isinstance(message, ToolResultsEvent) for one in message.results]
        self.run.read = ["\n\n".join(text_of(part) for part in one.result.parts) for one in results]
        calls = [called(call) for call in next(self._turns)]
        usage = Usage(prompt_tokens=INPUT, completion_tokens=OUTPUT, cache_read_input_tokens=CACHED)
        if calls:
            return ModelResponse(tool_calls=ToolCallsEvent(calls), usage=usage)
        return ModelResponse(ModelMessage(END), usage=usage)


def text_of(part: Any) -> str:
    return str(part.content) if hasattr(part, "content") else json.dumps(part.data)


def called(call: Call) -> ToolCallEvent:
    return ToolCallEvent(call.name, id=call.id, arguments=call.written)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    model = Scripted(script)
    agent: Any = Agent("a", config=model, tools=TOOLS, middleware=[HaltlineMiddleware(guard, effects=EFFECTS)])
    with stops(model.run):
        asyncio.run(agent.ask("work"))
    return model.run
