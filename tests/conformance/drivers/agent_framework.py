"""An agent of the Microsoft Agent Framework with the middleware."""

import asyncio
from collections.abc import Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    UsageDetails,
    tool,
)

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.agent_framework import haltline_middleware
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Run, Script, stops

ADAPTER = "agent-framework"
LACKS = frozenset({"subagents"})
SYNC, ASYNC = False, True


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    def __init__(self, script: Script) -> None:
        super().__init__()
        self.run = Run()
        self._turns = iter([*script, []])

    async def _inner_get_response(self, *, messages: Sequence[Message], **_: Any) -> ChatResponse[Any]:  # type: ignore[override]  # it never streams
        self.run.turns += 1
        results = [one for message in messages for one in message.contents if one.type == "function_result"]
        self.run.read = [text_of(one) for one in results]
        calls = [Content.from_function_call(call.id, call.name, arguments=call.args) for call in next(self._turns)]
        message = Message(role="assistant", contents=calls or [END])
        used = UsageDetails(input_token_count=INPUT, output_token_count=OUTPUT, cache_read_input_token_count=CACHED)
        return ChatResponse(messages=[message], usage_details=used)


def text_of(result: Any) -> str:
    return "\n\n".join(item.text or "" for item in result.items) if result.items else str(result.result)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    client = Scripted(script)
    agent: Any = Agent(
        client=client,
        tools=[tool(function, approval_mode="never_require") for function in TOOLS],
        middleware=haltline_middleware(guard, effects=EFFECTS),
    )
    with stops(client.run):
        asyncio.run(agent.run("work"))
    return client.run
