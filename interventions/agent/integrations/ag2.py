"""AG2 (formerly AutoGen): a middleware of an agent.

    agent = Agent("cleaner", config=config, tools=[delete_asset], middleware=[HaltlineMiddleware(guard)])

Each call of a tool goes through the guard. A refused call becomes a tool error that the model reads. When the session
was stopped, Refused ends the run before the model's next turn, as AG2 turns any exception around a tool into an error
for the model. Hints are added to the result of their call. Tools that the model's provider runs cannot be guarded.
Needs ag2 (`pip install 'haltline[ag2]'`).
"""

import json
from copy import copy
from typing import Any, Final

from ag2.events import ModelResponse, TextInput, ToolCallEvent, ToolErrorEvent, ToolResult, ToolResultEvent
from ag2.middleware import BaseMiddleware

from haltline.interventions.agent.frame.calls import NO_PLACE, Adapter, Results, call_async, turn_async
from haltline.interventions.agent.frame.session import NOT_CHECKED, Allowed, FrameworkSession, ResultUnknown, tokens
from haltline.schemas.events import Usage

_SUBTASKS: Final = frozenset({"run_subtask", "run_subtasks"})
"""Tools of AG2: agents of subtasks get the tools of their agent, but not its middleware."""
_NOT_GUARDED: Final = f"{NOT_CHECKED}: The tools of a subtask are not guarded, so it was not started. Do it without."


class CallDenied(Exception):
    """A refused call; its text is for the model."""


class HaltlineMiddleware(Adapter):
    """Passes every tool call and model turn through a guard. One guard is one session."""

    def __call__(self, event: Any, context: Any) -> BaseMiddleware:
        """Return the middleware of one turn, for AG2."""
        return _Middleware(event, context, self._session)


class _Middleware(BaseMiddleware):
    def __init__(self, event: Any, context: Any, session: FrameworkSession) -> None:
        super().__init__(event, context)
        self._session = session

    async def on_tool_execution(self, call_next: Any, event: ToolCallEvent, context: Any) -> Any:
        if event.name in _SUBTASKS:
            return _refusal(event, _NOT_GUARDED)
        results = Results[Any](
            lambda denied: _refusal(event, denied.text),
            stopped=lambda refused: _refusal(event, str(refused)),
            output=_output,
            hinted=_hinted,
        )
        proposed = event.id, event.name, event.arguments
        return await call_async(
            self._session, results, proposed, lambda allowed: call_next(_changed(event, allowed), context)
        )

    async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> ModelResponse:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        return await turn_async(
            self._session, lambda: call_next(events, context), lambda said: (usage_of(said), said.content)
        )


def usage_of(response: ModelResponse) -> Usage | None:
    """Return the tokens of a turn. AG2 counts cached input as the provider does."""
    used = response.usage
    if not used:
        return None
    inputs, cached = int(used.prompt_tokens or 0), int(used.cache_read_input_tokens or 0)
    if response.provider == "anthropic":
        inputs += cached + int(used.cache_creation_input_tokens or 0)
    return tokens(inputs, int(used.completion_tokens or 0), cached)


def _changed(event: ToolCallEvent, allowed: Allowed) -> ToolCallEvent:
    if not allowed.changed:
        return event
    changed = copy(event)
    changed.arguments, changed.serialized_arguments = json.dumps(allowed.args), allowed.args
    return changed


def _output(result: Any) -> tuple[str | None, BaseException | None]:
    if not isinstance(result, ToolResultEvent):
        return None, ResultUnknown("the client of its agent makes the call")
    output = "\n".join(part.content for part in result.result.parts if isinstance(part, TextInput))
    return output, result.error if isinstance(result, ToolErrorEvent) else None


def _hinted(result: Any, hints: str) -> Any:
    if not isinstance(result, ToolResultEvent):
        return NO_PLACE
    result.result.parts.append(TextInput(hints))
    return result


def _refusal(call: ToolCallEvent, text: str) -> ToolErrorEvent:
    return ToolErrorEvent(parent_id=call.id, name=call.name, error=CallDenied(text), result=ToolResult(text))
