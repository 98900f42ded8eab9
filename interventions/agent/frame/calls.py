"""The frame of an integration: a call from its proposal to the hints in its result, and a turn of the model.

An adapter supplies what is specific to its framework: a `Results` with the results of refused calls, the output or
error of a result, and the place of hints; and a function from a response to its usage and text. Frameworks that report
the beginning and the end of a call separately use `FrameworkSession` directly.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from haltline.interventions.agent.frame.session import Allowed, Denied, FrameworkSession, tokens, with_hints
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Effect, Usage

R = TypeVar("R")

Described: TypeAlias = tuple[Usage | None, str | None]
"""The usage of a turn, and the model's text; None: unknown."""


NO_PLACE: Final = object()
"""A result without a place for hints: the next call gets them."""


def hinted_text(result: Any, hints: str) -> Any:
    """Append hints to a text; other results have no place for them."""
    return with_hints(result, hints) if isinstance(result, str) else NO_PLACE


class Adapter:
    """The base of adapters that are one object. One guard is one session."""

    def __init__(self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> None:
        """`effects`: the effects of tools, by name, where their names do not show them."""
        self._session = FrameworkSession(guard, effects=effects)


@dataclass(frozen=True)
class Results(Generic[R]):
    """A framework's results of calls."""

    refused: Callable[[Denied], R]
    """The result of a refused call; may raise instead."""
    stopped: Callable[[Refused], R] | None = None
    """Like `refused`, for a stopped session; None: Refused is raised, which ends the run."""
    output: Callable[[R], tuple[Any, BaseException | str | None]] = lambda result: (result, None)
    """The output of a result, and its error; the error is None if the call succeeded."""
    hinted: Callable[[R, str], Any] = hinted_text
    """The result with the hints appended, or NO_PLACE."""


def call(
    session: FrameworkSession,
    results: Results[R],
    proposed: tuple[str | None, str, Any],
    make: Callable[[Allowed], R],
) -> R:
    """Run a whole call: `proposed` is its id, its name and its arguments; `make` makes it if it is allowed.

    An exception of `make` is published as the call's error, and propagates.

    Raises: Refused: the session was stopped, and `results` has no `stopped`.
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
    """Like `call`, without blocking the event loop. `about`: options of `FrameworkSession.propose_async`."""
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
    """Run a turn of the model. Raises Refused if the session was stopped: no more tokens are spent."""
    session.before_turn()
    response = ask()
    session.turn(*describe(response))
    return response


async def turn_async(
    session: FrameworkSession, ask: Callable[[], Awaitable[R]], describe: Callable[[R], Described]
) -> R:
    """Like `turn`, without blocking the event loop."""
    await session.before_turn_async()
    response = await ask()
    session.turn(*describe(response))
    return response


def usage_as_counted(used: Mapping[str, Any]) -> Usage:
    """Return the tokens of a turn, from the counts of OpenAI's or Anthropic's API.

    OpenAI's input includes cache reads; Anthropic's includes neither cache reads nor cache writes.
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
