"""The traps of LangChain: results of several parts, and a call without a name. Run with its driver."""

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from haltline.interventions.agent.integrations.langchain import HaltlineMiddleware
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind
from tests.conformance.drivers.langchain import Model
from tests.conformance.own import own
from tests.interventions.agent.attempts import block, hint, of

IMAGE = {"type": "image", "source_type": "url", "url": "https://example.org/a.png"}
CHART = {"type": "text", "text": "a chart"}


def look() -> list[Any]:
    """Looks."""
    return [CHART, IMAGE]


def result_of(guard: ScriptedGuard, name: str, function: Callable[..., Any]) -> Any:
    calls = AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "c0"}])
    model = Model(messages=iter([calls, AIMessage("the end")]))
    agent: Any = create_agent(model, [tool(function)], middleware=[HaltlineMiddleware(guard)])
    messages = agent.invoke({"messages": [("user", "look")]})["messages"]
    (result,) = [message for message in messages if isinstance(message, ToolMessage)]
    return result.content


@own("a result keeps its image, and a call needs no name")
def _() -> None:
    guard = ScriptedGuard(hint)
    assert result_of(guard, "look", look) == [CHART, IMAGE, {"type": "text", "text": "Think again."}]
    guard = ScriptedGuard(block)
    assert result_of(guard, "", look) == "Not this."
    assert [event.action for event in of(guard, Kind.PROPOSED)] == ["unknown"]
