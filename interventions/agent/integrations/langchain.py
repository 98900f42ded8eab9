"""LangChain and LangGraph: a middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[HaltlineMiddleware(guard)])

Each call of a tool goes through the guard. A refused one is answered with an error message that the model reads; when
the session was stopped, the exception goes on and ends the run. Hints are added to the result of the call that they
came with. Needs langchain (`pip install 'haltline[langchain]'`).
"""

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from haltline.interventions.agent.calls.guarded_call import Action
from haltline.interventions.agent.enforcement.refusal_cause import hints_of
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Effect, Usage

Result = ToolMessage | Command[Any]


class ToolError(Exception):
    """A tool's exception of which LangGraph has made a message already; never leaves this module."""

    def __init__(self, message: ToolMessage) -> None:
        super().__init__(message.text)
        self.message = message


class HaltlineMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts every call of a tool, and every turn of the model, before a guard. One guard is one session."""

    def __init__(self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> None:
        """`effects` says, by name, what tools do whose names do not tell."""
        super().__init__()
        self._guard = guard
        self._effects = dict(effects or {})
        self._kept: list[str] = []
        self._lock = threading.Lock()

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """A call of a tool. Raises Refused when the session was stopped."""
        action = self._action(request)
        try:
            with action:
                return self._ended(action, handler(_changed(request, action)))
        except Refused as refused:
            return self._refused(request, refused)
        except ToolError as failed:
            return failed.message
        except Exception:
            self._keep(hints_of(action.advice))
            raise

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """As `wrap_tool_call`, for agents that run on an event loop."""
        action = self._action(request)
        try:
            async with action:
                return self._ended(action, await handler(_changed(request, action)))
        except Refused as refused:
            return self._refused(request, refused)
        except ToolError as failed:
            return failed.message
        except Exception:
            self._keep(hints_of(action.advice))
            raise

    def before_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the arguments of a middleware
        """Raises Refused when the session was stopped: no more tokens are spent."""
        self._guard.check()

    def after_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - as above
        """Publishes the model's turn."""
        message = state["messages"][-1] if state.get("messages") else None
        if isinstance(message, AIMessage):
            self._guard.model_turn(usage=usage_of(message), output=message.text or None)

    def _action(self, request: ToolCallRequest) -> Action:
        call = request.tool_call
        name = call["name"] or "unknown"  # a model may name none: that is refused or fails as any other call
        action = self._guard.action(name, args=call["args"], effect=self._effects.get(name))
        if call.get("id"):
            action.call.call_id = str(call["id"])[:256]
        return action

    def _keep(self, hints: str) -> None:
        """Hints of a call that has no result to add them to: they are returned with the next one."""
        if hints:
            with self._lock:
                self._kept.append(hints)

    def _hints(self, hints: str) -> str:
        """What is returned with a call's result."""
        with self._lock:
            kept, self._kept = self._kept, []
        return "\n".join(filter(None, (*kept, hints)))

    def _ended(self, action: Action, result: Result) -> Result:
        if not isinstance(result, ToolMessage):
            self._keep(hints_of(action.advice))
            return result
        action.result(result.text)
        hints = self._hints(hints_of(action.advice))
        changed = result.model_copy(update={"content": _with(result.content, hints)}) if hints else result
        if result.status == "error":
            raise ToolError(changed)
        return changed

    def _refused(self, request: ToolCallRequest, refused: Refused) -> ToolMessage:
        if self._guard.killed:
            raise refused
        call = request.tool_call
        content = "\n\n".join(filter(None, (str(refused), self._hints(refused.hints))))
        return ToolMessage(content, tool_call_id=str(call["id"]), name=call["name"], status="error")


def usage_of(message: AIMessage) -> Usage | None:
    """The tokens of a turn, as far as its model tells."""
    used = message.usage_metadata
    if not used:
        return None
    cached = used.get("input_token_details", {}).get("cache_read", 0)
    return Usage(
        input_tokens=max(used["input_tokens"] - cached, 0),
        output_tokens=used["output_tokens"],
        cache_read_tokens=cached,
    )


def _with(content: str | list[str | dict[str, Any]], hints: str) -> str | list[str | dict[str, Any]]:
    """A result with the hints after it; blocks of it, an image for one, stay as they are."""
    if isinstance(content, str):
        return f"{content}\n\n{hints}"
    return [*content, {"type": "text", "text": hints}]


def _changed(request: ToolCallRequest, action: Action) -> ToolCallRequest:
    if not action.changes:
        return request
    return request.override(tool_call={**request.tool_call, "args": action.changes.of(request.tool_call["args"])})
