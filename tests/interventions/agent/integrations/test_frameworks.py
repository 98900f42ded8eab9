"""LangChain and the OpenAI Agents SDK as they are, with scripted models and a guard that is fed from a list."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, function_tool
from agents import Usage as AgentsUsage
from agents.items import TResponseOutputItem
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from haltline.interventions.agent import Refused
from haltline.interventions.agent.integrations.langchain import HaltlineMiddleware
from haltline.interventions.agent.integrations.openai_agents import HaltlineAgents
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.schemas.decisions import Level
from haltline.schemas.events import Effect, Kind, Outcome

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def work(path: str) -> str:
    """Works."""
    ran.append(path)
    if path == "bad":
        raise ValueError("no such path")
    return f"done {path}"


class Script(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # it knows its tools
        return self


def langchain(guard: ScriptedGuard, paths: Sequence[str], *, is_async: bool = False) -> list[str]:
    """What the model reads of its calls."""
    calls: list[AIMessage] = [
        AIMessage(
            "", tool_calls=[{"name": "work", "args": {"path": path}, "id": f"c{n}"}],
            usage_metadata={"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
        )
        for n, path in enumerate(paths)
    ]  # fmt: skip
    model = Script(messages=iter([*calls, AIMessage("the end")]))
    middleware = HaltlineMiddleware(guard, effects={"work": "write"})
    agent: Any = create_agent(model, [tool(work)], middleware=[middleware])
    task = {"messages": [("user", "work")]}
    state = asyncio.run(agent.ainvoke(task)) if is_async else agent.invoke(task)
    return [str(m.content) for m in state["messages"] if isinstance(m, ToolMessage)]


class AgentsScript(Model):
    def __init__(self, paths: Sequence[str]) -> None:
        self.heard: list[str] = []
        self._calls: list[TResponseOutputItem] = [
            ResponseFunctionToolCall(
                type="function_call", call_id=f"c{n}", name="work", arguments=json.dumps({"path": path})
            )
            for n, path in enumerate(paths)
        ]

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002 - the SDK's name
        if isinstance(input, list):
            self.heard = [i["output"] for i in input if i.get("type") == "function_call_output"]
        text = ResponseOutputText(type="output_text", text="the end", annotations=[])
        end = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        used = AgentsUsage(requests=1, input_tokens=9, output_tokens=2)
        return ModelResponse(output=[self._calls.pop(0) if self._calls else end], usage=used, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def openai_agents(guard: ScriptedGuard, paths: Sequence[str]) -> list[str]:
    """What the model reads of its calls."""
    haltline = HaltlineAgents(guard, effects={"work": "write"})
    model = AgentsScript(paths)
    agent = Agent(name="a", model=model, tools=haltline.guarded([function_tool(work)]))
    asyncio.run(Runner.run(agent, "work", hooks=haltline.hooks, run_config=RunConfig(tracing_disabled=True)))
    return model.heard


def langchain_async(guard: ScriptedGuard, paths: Sequence[str]) -> list[str]:
    return langchain(guard, paths, is_async=True)


FRAMEWORKS = [langchain, langchain_async, openai_agents]


@pytest.mark.parametrize("run", FRAMEWORKS)
def test_calls_and_turns_are_reported(run: Any) -> None:
    guard = ScriptedGuard()
    assert run(guard, ["a", "b"]) == ["done a", "done b"]
    calls = [(e.kind, e.call_id, e.effect) for e in guard.events if e.kind in {Kind.PROPOSED, Kind.COMPLETED}]
    assert calls == [(kind, c, Effect.WRITE) for c in ("c0", "c1") for kind in (Kind.PROPOSED, Kind.COMPLETED)]
    assert [e.output_head for e in guard.events if e.kind is Kind.COMPLETED] == ["done a", "done b"]
    turns = [e.usage for e in guard.events if e.kind is Kind.MODEL_TURN]
    assert [(u.input_tokens, u.output_tokens) for u in turns if u is not None][:2] == [(9, 2), (9, 2)]


@pytest.mark.parametrize("run", FRAMEWORKS)
def test_a_refused_call_is_not_made_and_the_model_reads_why(run: Any) -> None:
    block: Verdict = lambda e: decision(Level.BLOCK, e, code="scope_creep", message="Not this.")  # noqa: E731
    guard = ScriptedGuard(block)
    assert run(guard, ["a", "b"]) == ["scope_creep: Not this.", "done b"]
    assert ran == ["b"]


@pytest.mark.parametrize("run", FRAMEWORKS)
@pytest.mark.parametrize("level", [Level.NUDGE, Level.REINFORCE, Level.THROTTLE])
def test_a_hint_and_the_task_repeated_come_with_the_result(run: Any, level: Level) -> None:
    message = "Think again.\nThe original request: tidy up"
    guard = ScriptedGuard(lambda e: decision(level, e, message=message))
    assert run(guard, ["a"]) == [f"done a\n\n{message}"]


@pytest.mark.parametrize("run", FRAMEWORKS)
def test_a_killed_session_ends_the_run(run: Any) -> None:
    guard = ScriptedGuard(Level.ALLOW, Level.KILL)
    with pytest.raises(Exception, match=r"session_killed_loop_guard|ToolInputGuardrail"):
        run(guard, ["a", "b", "c"])
    assert ran == ["a"]
    with pytest.raises(Refused):
        run(guard, ["d"])


@pytest.mark.parametrize("run", FRAMEWORKS)
def test_a_failed_call_ends_with_an_error_or_unknown(run: Any) -> None:
    guard = ScriptedGuard()
    try:
        run(guard, ["bad"])
    except ValueError:
        assert run is not openai_agents  # LangChain lets a tool's exception end the run
    (end,) = [e for e in guard.events if e.kind is Kind.COMPLETED]
    assert end.outcome is (
        Outcome.OK if run is openai_agents else Outcome.ERROR
    )  # the SDK gives its message as a result


@pytest.mark.parametrize("run", [langchain, langchain_async])
def test_changed_arguments_are_used(run: Any) -> None:
    guard = ScriptedGuard(lambda e: decision(Level.NUDGE, e, arguments={"path": "safe"}))
    run(guard, ["/"])
    assert ran == ["safe"]


def test_a_call_whose_arguments_cannot_be_changed_is_not_made() -> None:
    guard = ScriptedGuard(lambda e: decision(Level.NUDGE, e, arguments={"path": "safe"}))
    assert openai_agents(guard, ["/"]) == ['This call is only allowed with other arguments: {"path": "safe"}']
    assert ran == []


def test_a_hint_leaves_the_image_of_a_result_where_it_is() -> None:
    image = {"type": "image", "source_type": "url", "url": "https://example.org/a.png"}

    def look() -> list[Any]:
        """Looks."""
        return [{"type": "text", "text": "a chart"}, image]

    guard = ScriptedGuard(lambda e: decision(Level.NUDGE, e, message="Think again."))
    model = Script(
        messages=iter([AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c0"}]), AIMessage("end")])
    )
    agent: Any = create_agent(model, [tool(look)], middleware=[HaltlineMiddleware(guard)])
    (result,) = [m for m in agent.invoke({"messages": [("user", "look")]})["messages"] if isinstance(m, ToolMessage)]
    assert result.content == [{"type": "text", "text": "a chart"}, image, {"type": "text", "text": "Think again."}]


def test_a_call_of_a_tool_without_a_name_is_guarded_as_any_other() -> None:
    guard = ScriptedGuard(lambda e: decision(Level.BLOCK, e, message="Not this."))
    model = Script(
        messages=iter([AIMessage("", tool_calls=[{"name": "", "args": {}, "id": "c0"}]), AIMessage("the end")])
    )
    agent: Any = create_agent(model, [tool(work)], middleware=[HaltlineMiddleware(guard)])
    (result,) = [m for m in agent.invoke({"messages": [("user", "work")]})["messages"] if isinstance(m, ToolMessage)]
    assert result.content == "block: Not this."
    assert [e.action for e in guard.events if e.kind is Kind.PROPOSED] == ["unknown"]
