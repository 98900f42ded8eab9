"""An agent of `create_agent` with the middleware."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, InvalidToolCall, ToolMessage
from langchain_core.tools import tool

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.langchain import HaltlineMiddleware
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Call, Run, Script, why

ADAPTER = "langchain"
LACKS = frozenset({"reads_errors", "subagents"})
SYNC = ASYNC = True


class Model(GenericFakeChatModel):
    read: list[str] = []  # noqa: RUF012 - pydantic copies it
    turns: int = 0

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # it knows its tools
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.turns += 1
        self.read = [str(m.content) if isinstance(m.content, str) else text_of(m) for m in messages if is_result(m)]
        return super()._generate(messages, *args, **kwargs)


def is_result(message: Any) -> bool:
    return isinstance(message, ToolMessage)


def text_of(message: ToolMessage) -> str:
    return message.text


def turn(calls: list[Call]) -> AIMessage:
    used = {"input_tokens": INPUT, "output_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    return AIMessage(
        "" if calls else END,
        tool_calls=[{"name": c.name, "args": c.args, "id": c.id} for c in calls if isinstance(c.args, dict)],
        invalid_tool_calls=[
            InvalidToolCall(type="invalid_tool_call", name=c.name, args=c.args, id=c.id, error="no JSON")
            for c in calls
            if isinstance(c.args, str)
        ],
        usage_metadata={**used, "input_token_details": {"cache_read": CACHED}},
    )


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    middleware = HaltlineMiddleware(guard, effects=EFFECTS)
    return run_agent(partial(create_agent, middleware=[middleware]), script, is_async=is_async)


def run_agent(make: Callable[..., Any], script: Script, *, is_async: bool) -> Run:
    """`make` has a model and tools."""
    model = Model(messages=iter([turn(list(calls)) for calls in [*script, []]]))
    agent = make(model, [tool(function) for function in TOOLS])
    task = {"messages": [("user", "work")]}
    stopped = ""
    try:
        _ = asyncio.run(agent.ainvoke(task)) if is_async else agent.invoke(task)
    except Exception as error:
        stopped = why(error)
    return Run(model.read, model.turns, stopped)
