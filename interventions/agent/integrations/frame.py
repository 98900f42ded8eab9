"""The frame of an integration: a call from its proposal to the hints in its result, and a turn of the model.

An adapter says only how its framework names them: with a `Results` what the model reads of a refused call, what of a
result is its output or its error, and where hints stand; with a function of a response what the turn used and wrote.
Frameworks that report the beginning and the end of a call apart use `FrameworkSession` itself.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from haltline.interventions.agent.integrations.framework_session import (
    Allowed,
    Denied,
    FrameworkSession,
    tokens,
    with_hints,
)
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Usage

R = TypeVar("R")

Described: TypeAlias = tuple[Usage | None, str | None]
"""What a turn used, and what the model wrote; None: unknown."""


NO_PLACE: Final = object()
"""Of a result: it has no place for hints, and the next call brings them."""


def hinted_text(result: Any, hints: str) -> Any:
    """A text with the hints after it; what is no text has no place for them."""
    return with_hints(result, hints) if isinstance(result, str) else NO_PLACE


@dataclass(frozen=True)
class Results(Generic[R]):
    """How a framework names what comes of a call."""

    refused: Callable[[Denied], R]
    """The result of a call that was refused; or it raises."""
    stopped: Callable[[Refused], R] | None = None
    """As `refused`, of a session that was stopped; None: Refused is raised, which ends the run."""
    output: Callable[[R], tuple[Any, BaseException | str | None]] = lambda result: (result, None)
    """The output of a result, and its error; the error is None where the call has not failed."""
    hinted: Callable[[R, str], Any] = hinted_text
    """The result with the hints after it, or NO_PLACE."""


def call(
    session: FrameworkSession,
    results: Results[R],
    proposed: tuple[str | None, str, Any],
    make: Callable[[Allowed], R],
) -> R:
    """A whole call: `proposed` is its id, its name and its arguments; `make` makes it when it is allowed.

    An exception of `make` is published as the call's error, and goes on.

    Raises:
        Refused: the session was stopped, and `results` has no `stopped`.

    """
    try:
        verdict = session.before(*proposed)
    except Refused as stopped:
        return _stopped(results, stopped)
    if isinstance(verdict, Denied):
        return results.refused(verdict)
    with session.reporting(verdict.call_id):
        result = make(verdict)
    return _ended(session, results, verdict.call_id, result)


async def call_async(
    session: FrameworkSession,
    results: Results[R],
    proposed: tuple[str | None, str, Any],
    make: Callable[[Allowed], Awaitable[R]],
    **about: Any,
) -> R:
    """As `call`; does not block the event loop. `about` are options of `FrameworkSession.propose_async`."""
    try:
        verdict = await session.before_async(*proposed, **about)
    except Refused as stopped:
        return _stopped(results, stopped)
    if isinstance(verdict, Denied):
        return results.refused(verdict)
    with session.reporting(verdict.call_id):
        result = await make(verdict)
    return _ended(session, results, verdict.call_id, result)


def turn(session: FrameworkSession, ask: Callable[[], R], describe: Callable[[R], Described]) -> R:
    """A turn of the model. Raises Refused when the session was stopped: no more tokens are spent."""
    session.before_turn()
    response = ask()
    session.turn(*describe(response))
    return response


async def turn_async(
    session: FrameworkSession, ask: Callable[[], Awaitable[R]], describe: Callable[[R], Described]
) -> R:
    """As `turn`; does not block the event loop."""
    await session.before_turn_async()
    response = await ask()
    session.turn(*describe(response))
    return response


def usage_as_counted(used: Mapping[str, Any]) -> Usage:
    """The tokens of a turn, as the API of OpenAI or that of Anthropic counts them.

    OpenAI's input has what came from the cache; Anthropic's has neither that nor what was written to the cache.
    """
    if "prompt_tokens" in used:
        cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens")
        return tokens(used["prompt_tokens"], used.get("completion_tokens"), cached)
    cached = used.get("cache_read_input_tokens") or 0
    uncached = (used.get("input_tokens") or 0) + (used.get("cache_creation_input_tokens") or 0)
    return tokens(uncached + cached, used.get("output_tokens"), cached)


def _stopped(results: Results[R], stopped: Refused) -> R:
    if results.stopped is None:
        raise stopped
    return results.stopped(stopped)


def _ended(session: FrameworkSession, results: Results[R], call_id: str, result: R) -> R:
    output, error = results.output(result)
    hints = session.after(call_id, output, error=error)
    if not hints:
        return result
    hinted = results.hinted(result, hints)
    if hinted is NO_PLACE:
        session.keep(hints)
        return result
    return cast("R", hinted)
