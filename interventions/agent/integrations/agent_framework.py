"""Microsoft Agent Framework: middleware of an agent.

    agent = Agent(client, tools=[delete_asset], middleware=haltline_middleware(guard))

Each call of a function goes through the guard. A refused one gets the reason as its result, which the model reads;
when the session was stopped, MiddlewareFailure (its `__cause__` is Refused) ends the run, or Refused before the model's
next turn. Hints are added to the result of their call. Tools that the model's provider runs cannot be guarded.
Needs agent-framework-core (`pip install 'haltline[agent-framework]'`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from agent_framework import (
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareFailure,
)
from pydantic import BaseModel

from haltline.interventions.agent.frame.calls import Results, call_async, hinted_text
from haltline.interventions.agent.frame.session import Allowed, FrameworkSession, tokens
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Effect, Usage


def haltline_middleware(guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> list[Any]:
    """Return middleware for `Agent(..., middleware=...)`. One guard is one session.

    `effects`: the effects of tools, by name, where their names do not show them.
    """
    session = FrameworkSession(guard, effects=effects)
    return [_Functions(session), _Turns(session)]


class _Functions(FunctionMiddleware):
    def __init__(self, session: FrameworkSession) -> None:
        self._session = session

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        given = context.arguments
        args = given.model_dump() if isinstance(given, BaseModel) else given

        async def make(allowed: Allowed) -> Any:
            if allowed.changed:
                context.arguments = allowed.args
            await call_next()
            return context.result

        proposed = context.metadata.get("call_id"), context.function.name, args
        context.result = await call_async(self._session, _RESULTS, proposed, make)


def _fail(stopped: Refused) -> Any:
    raise MiddlewareFailure(str(stopped)) from stopped


def _has_contents(result: Any) -> bool:
    return isinstance(result, list) and bool(result) and all(isinstance(one, Content) for one in result)


def _output(result: Any) -> tuple[Any, None]:
    if not _has_contents(result):
        return result, None
    return "\n".join(one.text or "" for one in result if one.type == "text"), None


def _hinted(result: Any, hints: str) -> Any:
    """Add hints to a result; one that is not text stays unchanged."""
    return [*result, Content.from_text(hints)] if _has_contents(result) else hinted_text(result, hints)


_RESULTS: Final = Results[Any](lambda denied: denied.text, stopped=_fail, output=_output, hinted=_hinted)


class _Turns(ChatMiddleware):
    def __init__(self, session: FrameworkSession) -> None:
        self._session = session

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        await self._session.before_turn_async()
        if context.stream:
            context.stream_result_hooks.append(self._ended)
            await call_next()
            return
        await call_next()
        if isinstance(context.result, ChatResponse):
            self._ended(context.result)

    def _ended(self, response: ChatResponse) -> ChatResponse:
        self._session.turn(usage_of(response), response.text)
        return response


def usage_of(response: ChatResponse) -> Usage | None:
    """Return the tokens of a turn. The input includes cached tokens."""
    used = response.usage_details
    if not used:
        return None
    return tokens(
        used.get("input_token_count"), used.get("output_token_count"), used.get("cache_read_input_token_count")
    )
