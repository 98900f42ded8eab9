from typing import Any

import pytest
from agents import LocalShellTool
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from haltline.interventions.agent.integrations.langchain import HaltlineMiddleware
from haltline.interventions.agent.integrations.openai_agents import HaltlineAgents
from haltline.interventions.agent.testing import ScriptedGuard, decision
from haltline.schemas.decisions import Level
from haltline.schemas.events import Kind


class Script(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # it knows its tools
        return self


def work(path: str) -> str:
    """Works."""
    return f"done {path}"


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


def test_a_tool_of_the_agents_sdk_that_takes_no_guardrail_is_refused_at_the_start() -> None:
    shell = LocalShellTool(executor=lambda _: "done")
    with pytest.raises(ValueError, match="expected functions, or tools of the provider, got LocalShellTool"):
        HaltlineAgents(ScriptedGuard()).guarded([shell])
