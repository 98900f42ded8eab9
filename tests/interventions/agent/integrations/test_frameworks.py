from collections.abc import Callable
from typing import Any

import pytest
from agents import LocalShellTool
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from haltline.interventions.agent.integrations.langchain import HaltlineMiddleware
from haltline.interventions.agent.integrations.openai_agents import HaltlineAgents
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind
from tests.interventions.agent.attempts import block, hint, of


class Script(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # it knows its tools
        return self


def result_of(guard: ScriptedGuard, name: str, function: Callable[..., Any]) -> Any:
    calls = AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "c0"}])
    model = Script(messages=iter([calls, AIMessage("the end")]))
    agent: Any = create_agent(model, [tool(function)], middleware=[HaltlineMiddleware(guard)])
    messages = agent.invoke({"messages": [("user", "look")]})["messages"]
    (result,) = [message for message in messages if isinstance(message, ToolMessage)]
    return result.content


IMAGE = {"type": "image", "source_type": "url", "url": "https://example.org/a.png"}
CHART = {"type": "text", "text": "a chart"}


def look() -> list[Any]:
    """Looks."""
    return [CHART, IMAGE]


def test_a_result_keeps_its_image_and_a_tool_needs_no_name() -> None:
    guard = ScriptedGuard(hint)
    assert result_of(guard, "look", look) == [CHART, IMAGE, {"type": "text", "text": "Think again."}]
    guard = ScriptedGuard(block)
    assert result_of(guard, "", look) == "scope_creep: Not this."
    assert [event.action for event in of(guard, Kind.PROPOSED)] == ["unknown"]


def test_a_tool_of_the_agents_sdk_that_takes_no_guardrail_is_refused_at_the_start() -> None:
    shell = LocalShellTool(executor=lambda _: "done")
    with pytest.raises(ValueError, match="expected functions, or tools of the provider, got LocalShellTool"):
        HaltlineAgents(ScriptedGuard()).guarded([shell])
