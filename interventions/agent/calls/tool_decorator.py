"""Functions whose calls pass through the guard."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from haltline.interventions.agent.call import Signature
from haltline.interventions.agent.calls.argument_changes import applied
from haltline.interventions.agent.calls.call_gate import Action

P = ParamSpec("P")
R = TypeVar("R")


def name_of(function: Callable[..., Any]) -> str:
    """Return the default name of the tool."""
    return str(getattr(function, "__name__", type(function).__name__))


def guarded(function: Callable[P, R], enter: Callable[[Mapping[str, Any]], Action]) -> Callable[P, R]:
    """Return the function with each call inside the action that `enter` creates; a coroutine function stays one.

    Raises TypeError for a generator function, as it has no single end.
    """
    # For a callable object, its `__call__` decides.
    called: object = function if inspect.isroutine(function) else type(function).__call__
    if any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (function, called)):
        raise TypeError(f"tool {name_of(function)}: expected a function or a coroutine function, got a generator")
    signature = Signature(function)

    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        coroutine = cast("Callable[P, Awaitable[Any]]", function)

        @functools.wraps(function)
        async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            async with enter(signature.arguments(args, kwargs)) as action:
                if action.replayed:
                    return action.value
                if action.advice and action.changes:
                    bound = applied(signature.plain, args, kwargs, action.changes)
                    value = await coroutine(*bound.args, **bound.kwargs)
                else:
                    value = await coroutine(*args, **kwargs)
                action.result(value)
                return value

        return cast("Callable[P, R]", call_async)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with enter(signature.arguments(args, kwargs)) as action:
            if action.replayed:
                return cast("R", action.value)
            if action.advice and action.changes:
                bound = applied(signature.plain, args, kwargs, action.changes)
                value = function(*bound.args, **bound.kwargs)
            else:
                value = function(*args, **kwargs)
            action.result(value)
            return value

    return call
