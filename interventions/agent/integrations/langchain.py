"""LangChain and LangGraph: a middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[HaltlineMiddleware(guard)])

Each call of a tool goes through the guard. A refused one is answered with an error message that the model reads; when
the session was stopped, the exception propagates and ends the run. Hints are added to the result of their call.
`guarded(create_react_agent, guard)(model, tools)` does the same for LangGraph's own agents. Needs langchain
(`pip install 'haltline[langchain]'`).
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from haltline.interventions.agent.frame.calls import NO_PLACE, Adapter, Results, call, call_async
from haltline.interventions.agent.frame.session import Allowed, tokens, with_hints
from haltline.interventions.agent.guard import Guard
from haltline.schemas.events import Effect, Usage

Result = ToolMessage | Command[Any]
T = TypeVar("T")


class HaltlineMiddleware(Adapter, AgentMiddleware[Any, Any, Any]):
    """Passes every tool call and model turn through a guard. One guard is one session."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """Check a call of a tool. Raises Refused if the session was stopped."""
        return call(self._session, *_call_of(request), lambda allowed: handler(_changed(request, allowed)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Like `wrap_tool_call`, for agents that run on an event loop."""
        return await call_async(self._session, *_call_of(request), lambda allowed: handler(_changed(request, allowed)))

    def before_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the arguments of a middleware
        """Raises Refused if the session was stopped: no more tokens are spent."""
        self._session.before_turn()

    async def abefore_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - as above
        """Like `before_model`, without blocking the event loop."""
        await self._session.before_turn_async()

    def after_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - as above
        """Publish the model's turn."""
        message = state["messages"][-1] if state.get("messages") else None
        if isinstance(message, AIMessage):
            self._session.turn(usage_of(message), message.text)


def guarded(
    create: Callable[..., T], guard: Guard, *, effects: Mapping[str, Effect | str] | None = None
) -> Callable[..., T]:
    """Return LangGraph's `create_react_agent` with the agents that it creates behind the guard.

    The hooks of such an agent are the guard's. Raises ValueError for hooks of its own, or tools that are not a list of
    local tools.
    """
    own = HaltlineMiddleware(guard, effects=effects)

    @wraps(create)
    def made(model: Any, tools: Any, **options: Any) -> T:
        if isinstance(tools, ToolNode) or any(isinstance(one, dict) for one in tools):
            raise ValueError("tools: expected a list of tools that run here, got a ToolNode or a provider's tool")
        hooks = {
            "pre_model_hook": RunnableLambda(
                partial(own.before_model, runtime=None), partial(own.abefore_model, runtime=None)
            ),
            "post_model_hook": RunnableLambda(partial(own.after_model, runtime=None)),
        }
        if taken := [name for name in hooks if options.get(name) is not None]:
            raise ValueError(f"{taken[0]}: expected none beside the guard's, got one; create_agent takes several")
        node = ToolNode(tools, wrap_tool_call=own.wrap_tool_call, awrap_tool_call=own.awrap_tool_call)
        return create(model, node, **options | hooks)

    return made


def usage_of(message: AIMessage) -> Usage | None:
    """Return the tokens of a turn, as far as the model reports them."""
    used = message.usage_metadata
    if not used:
        return None
    return tokens(used["input_tokens"], used["output_tokens"], used.get("input_token_details", {}).get("cache_read"))


def _call_of(request: ToolCallRequest) -> tuple[Results[Result], tuple[str | None, str, Any]]:
    of = request.tool_call
    answer = {"tool_call_id": str(of["id"]), "name": of["name"], "status": "error"}
    results = Results[Result](lambda denied: ToolMessage(denied.text, **answer), output=_output, hinted=_hinted)
    return results, (of["id"], of["name"], of["args"])


def _output(result: Result) -> tuple[str | None, str | None]:
    """Return the output and the error of a result; None for a command, as the model reads no result of its call."""
    if not isinstance(result, ToolMessage):
        return None, None
    return result.text, result.text if result.status == "error" else None


def _hinted(result: Result, hints: str) -> Any:
    """Append the hints to a result; its blocks, such as images, stay unchanged."""
    if not isinstance(result, ToolMessage):
        return NO_PLACE
    own = result.content
    content = with_hints(own, hints) if isinstance(own, str) else [*own, {"type": "text", "text": hints}]
    return result.model_copy(update={"content": content})


def _changed(request: ToolCallRequest, verdict: Allowed) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": verdict.args}) if verdict.changed else request
