"""DSPy: a ReAct program behind a guard.

    program = guarded(dspy.ReAct("task -> answer", tools=[delete_asset]), guard)

Its tools are replaced by copies that call the guard first, as DSPy's callbacks cannot refuse: their exceptions are only
logged. A refused call is an observation that the model reads; when the session was stopped, Refused ends the program
before the model's next turn. Hints are added to the observation. Guard a program after its optimization. Needs dspy
(`pip install 'haltline[dspy]'`).
"""

from collections.abc import Mapping
from typing import Any, Final

import dspy
from pydantic import PrivateAttr

from haltline.interventions.agent.frame.calls import Described, Results, call, call_async, turn, turn_async
from haltline.interventions.agent.frame.session import FrameworkSession, tokens, with_hints
from haltline.interventions.agent.guard import Guard
from haltline.schemas.events import Effect, Usage


def guarded(program: dspy.ReAct, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> dspy.ReAct:
    """Put the program behind the guard, and return it. `effects`: those of tools whose names do not show them.

    Raises: ValueError: it is a CodeAct, which copies the source of its tools into an interpreter.
    """
    if isinstance(program, dspy.CodeAct):
        raise ValueError("program: expected a ReAct, got a CodeAct: its tools run in an interpreter of their own")
    session = FrameworkSession(guard, effects=effects)
    program.tools = {
        name: tool if name == "finish" else _GuardedTool.of(tool, session) for name, tool in program.tools.items()
    }
    predict = program._call_with_potential_trajectory_truncation
    predict_async = program._async_call_with_potential_trajectory_truncation

    def guarded_turn(*args: Any, **inputs: Any) -> Any:
        with dspy.track_usage() as used:
            return turn(session, lambda: predict(*args, **inputs), lambda said: _described(used, said))

    async def guarded_turn_async(*args: Any, **inputs: Any) -> Any:
        with dspy.track_usage() as used:
            return await turn_async(
                session, lambda: predict_async(*args, **inputs), lambda said: _described(used, said)
            )

    program._call_with_potential_trajectory_truncation = guarded_turn
    program._async_call_with_potential_trajectory_truncation = guarded_turn_async
    return program


_OBSERVATIONS: Final = Results[Any](
    refused=lambda denied: denied.text, hinted=lambda result, hints: with_hints(str(result), hints)
)


class _GuardedTool(dspy.Tool):  # type: ignore[misc]  # the library has no types
    _session: FrameworkSession = PrivateAttr()

    @classmethod
    def of(cls, tool: dspy.Tool, session: FrameworkSession) -> "_GuardedTool":
        copied = cls(**{name: getattr(tool, name) for name in ("func", "name", "desc", "args", "arg_types")})
        copied.has_kwargs = tool.has_kwargs
        copied._session = session
        return copied

    def __call__(self, **args: Any) -> Any:
        run = super().__call__
        return call(self._session, _OBSERVATIONS, (None, str(self.name), args), lambda allowed: run(**allowed.args))

    async def acall(self, **args: Any) -> Any:
        run, proposed = super().acall, (None, str(self.name), args)
        return await call_async(self._session, _OBSERVATIONS, proposed, lambda allowed: run(**allowed.args))


def usage_of(by_model: Mapping[str, Mapping[str, Any]]) -> Usage | None:
    """Return the tokens of a turn, summed over its models."""
    if not by_model:
        return None
    used = by_model.values()
    cached = sum((one.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for one in used)
    inputs, outputs = (sum(one.get(name) or 0 for one in used) for name in ("prompt_tokens", "completion_tokens"))
    return tokens(inputs, outputs, cached)


def _described(used: Any, prediction: Any) -> Described:
    """Return the model's usage and its thought; for the last turn, its answers."""
    thought = prediction.get("next_thought")
    text = str(thought) if thought is not None else "\n".join(str(value) for _, value in prediction.items())
    return usage_of(used.get_total_tokens()), text
