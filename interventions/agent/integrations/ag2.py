"""AG2 (formerly AutoGen): a middleware of an agent.

    agent = Agent("cleaner", config=config, tools=[delete_asset], middleware=[HaltlineMiddleware(guard)])

Each call of a tool goes through the guard. A refused one is a tool's error that the model reads; when the session was
stopped, Refused ends the run before the model's next turn, as AG2 makes an error for the model of whatever is raised
around a tool. Hints are added to the result of their call. Tools that the model's provider runs cannot be guarded.
Needs ag2 (`pip install 'haltline[ag2]'`).
"""

import json
from collections.abc import Mapping
from copy import copy
from typing import Any, Final

from ag2.events import ModelResponse, TextInput, ToolCallEvent, ToolErrorEvent, ToolResult, ToolResultEvent
from ag2.middleware import BaseMiddleware

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.framework_session import (
    NOT_CHECKED,
    Denied,
    FrameworkSession,
    ResultUnknown,
    tokens,
)
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Effect, Usage

_SUBTASKS: Final = frozenset({"run_subtask", "run_subtasks"})
"""AG2's own: the agents of subtasks get the tools of their agent, and none of its middleware."""
_NOT_GUARDED: Final = f"{NOT_CHECKED}: The tools of a subtask are not guarded, so it was not started. Do it without."


class CallDenied(Exception):
    """Its text is the refusal, which the model reads."""


class HaltlineMiddleware:
    """Puts every call of a tool, and every turn of the model, before a guard. One guard is one session."""

    def __init__(self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> None:
        """`effects` says, by name, what tools do whose names do not tell."""
        self._session = FrameworkSession(guard, effects=effects)

    def __call__(self, event: Any, context: Any) -> BaseMiddleware:
        """For AG2: the middleware of one turn."""
        return _Middleware(event, context, self._session)


class _Middleware(BaseMiddleware):
    def __init__(self, event: Any, context: Any, session: FrameworkSession) -> None:
        super().__init__(event, context)
        self._session = session

    async def on_tool_execution(self, call_next: Any, event: ToolCallEvent, context: Any) -> Any:
        if event.name in _SUBTASKS:
            return _refusal(event, _NOT_GUARDED)
        try:
            verdict = await self._session.before_async(event.id, event.name, event.arguments)
        except Refused as stopped:
            return _refusal(event, str(stopped))
        if isinstance(verdict, Denied):
            return _refusal(event, verdict.text)
        if verdict.changed:
            event = copy(event)
            event.arguments, event.serialized_arguments = json.dumps(verdict.args), verdict.args
        with self._session.reporting(verdict.call_id):
            result = await call_next(event, context)
        if not isinstance(result, ToolResultEvent):  # the client of this agent makes the call
            self._session.failed(verdict.call_id, ResultUnknown("its client makes the call"))
            return result
        output = "\n".join(part.content for part in result.result.parts if isinstance(part, TextInput))
        failed = result.error if isinstance(result, ToolErrorEvent) else None
        hints = self._session.after(verdict.call_id, output, error=failed)
        if hints:
            result.result.parts.append(TextInput(hints))
        return result

    async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> ModelResponse:
        """Raises Refused when the session was stopped: no more tokens are spent."""
        await self._session.before_turn_async()
        response: ModelResponse = await call_next(events, context)
        self._session.turn(usage_of(response), response.content)
        return response


def usage_of(response: ModelResponse) -> Usage | None:
    """The tokens of a turn. AG2 counts what came from the cache as input where the provider does."""
    used = response.usage
    if not used:
        return None
    inputs, cached = int(used.prompt_tokens or 0), int(used.cache_read_input_tokens or 0)
    if response.provider == "anthropic":
        inputs += cached + int(used.cache_creation_input_tokens or 0)
    return tokens(inputs, int(used.completion_tokens or 0), cached)


def _refusal(call: ToolCallEvent, text: str) -> ToolErrorEvent:
    return ToolErrorEvent(parent_id=call.id, name=call.name, error=CallDenied(text), result=ToolResult(text))
