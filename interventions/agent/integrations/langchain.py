"""LangChain and LangGraph: a middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[HaltlineMiddleware(guard)])

Each call of a tool goes through the guard. A refused one is answered with an error message that the model reads; when
the session was stopped, the exception goes on and ends the run. Hints are added to the result of the call that they
came with. Needs langchain (`pip install 'haltline[langchain]'`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.framework_session import (
    Allowed,
    Denied,
    FrameworkSession,
    tokens,
    with_hints,
)
from haltline.schemas.events import Effect, Usage

Result = ToolMessage | Command[Any]


class HaltlineMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts every call of a tool, and every turn of the model, before a guard. One guard is one session."""

    def __init__(self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> None:
        """`effects` says, by name, what tools do whose names do not tell."""
        super().__init__()
        self._session = FrameworkSession(guard, effects=effects)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """A call of a tool. Raises Refused when the session was stopped."""
        call = request.tool_call
        verdict = self._session.before(call["id"], call["name"], call["args"])
        if isinstance(verdict, Denied):
            return _refusal(request, verdict)
        with self._session.reporting(verdict.call_id):
            result = handler(_changed(request, verdict))
        return self._ended(verdict, result)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """As `wrap_tool_call`, for agents that run on an event loop."""
        call = request.tool_call
        verdict = await self._session.before_async(call["id"], call["name"], call["args"])
        if isinstance(verdict, Denied):
            return _refusal(request, verdict)
        with self._session.reporting(verdict.call_id):
            result = await handler(_changed(request, verdict))
        return self._ended(verdict, result)

    def before_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the arguments of a middleware
        """Raises Refused when the session was stopped: no more tokens are spent."""
        self._session.before_turn()

    async def abefore_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - as above
        """As `before_model`; does not block the event loop."""
        await self._session.before_turn_async()

    def after_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - as above
        """Publishes the model's turn."""
        message = state["messages"][-1] if state.get("messages") else None
        if isinstance(message, AIMessage):
            self._session.turn(usage_of(message), message.text)

    def _ended(self, verdict: Allowed, result: Result) -> Result:
        if not isinstance(result, ToolMessage):  # a command: the model reads no result of this call
            self._session.keep(self._session.after(verdict.call_id))
            return result
        error = result.text if result.status == "error" else None
        hints = self._session.after(verdict.call_id, result.text, error=error)
        return result.model_copy(update={"content": _with(result.content, hints)}) if hints else result


def usage_of(message: AIMessage) -> Usage | None:
    """The tokens of a turn, as far as its model tells."""
    used = message.usage_metadata
    if not used:
        return None
    return tokens(used["input_tokens"], used["output_tokens"], used.get("input_token_details", {}).get("cache_read"))


def _refusal(request: ToolCallRequest, denied: Denied) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(denied.text, tool_call_id=str(call["id"]), name=call["name"], status="error")


def _with(content: str | list[str | dict[str, Any]], hints: str) -> str | list[str | dict[str, Any]]:
    """A result with the hints after it; blocks of it, an image for one, stay as they are."""
    return with_hints(content, hints) if isinstance(content, str) else [*content, {"type": "text", "text": hints}]


def _changed(request: ToolCallRequest, verdict: Allowed) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": verdict.args}) if verdict.changed else request
