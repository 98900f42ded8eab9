"""DSPy: a ReAct program behind a guard.

    program = guarded(dspy.ReAct("task -> answer", tools=[delete_asset]), guard)

Its tools are replaced by copies that ask the guard first, as DSPy's callbacks can refuse nothing: what they raise is
only logged. A refused call is an observation that the model reads; when the session was stopped, Refused ends the
program before the model's next turn. Hints are added to the observation. A program is guarded after it was optimized.
Needs dspy (`pip install 'haltline[dspy]'`).
"""

from collections.abc import Mapping
from typing import Any

import dspy
from pydantic import PrivateAttr

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.framework_session import Denied, FrameworkSession, tokens, with_hints
from haltline.schemas.events import Effect, Usage


def guarded(program: dspy.ReAct, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> dspy.ReAct:
    """The program itself, from now on behind the guard. `effects` says what tools do whose names do not tell.

    Raises:
        ValueError: it is a CodeAct, which copies the source of its tools into an interpreter.

    """
    if isinstance(program, dspy.CodeAct):
        raise ValueError("program: expected a ReAct, got a CodeAct: its tools run in an interpreter of their own")
    session = FrameworkSession(guard, effects=effects)
    program.tools = {
        name: tool if name == "finish" else _GuardedTool.of(tool, session) for name, tool in program.tools.items()
    }
    predict = program._call_with_potential_trajectory_truncation
    predict_async = program._async_call_with_potential_trajectory_truncation

    def turn(*args: Any, **inputs: Any) -> Any:
        session.before_turn()
        with dspy.track_usage() as used:
            prediction = predict(*args, **inputs)
        session.turn(usage_of(used.get_total_tokens()), _text_of(prediction))
        return prediction

    async def turn_async(*args: Any, **inputs: Any) -> Any:
        await session.before_turn_async()
        with dspy.track_usage() as used:
            prediction = await predict_async(*args, **inputs)
        session.turn(usage_of(used.get_total_tokens()), _text_of(prediction))
        return prediction

    program._call_with_potential_trajectory_truncation = turn
    program._async_call_with_potential_trajectory_truncation = turn_async
    return program


class _GuardedTool(dspy.Tool):  # type: ignore[misc]  # the library has no types
    _session: FrameworkSession = PrivateAttr()

    @classmethod
    def of(cls, tool: dspy.Tool, session: FrameworkSession) -> "_GuardedTool":
        copied = cls(**{name: getattr(tool, name) for name in ("func", "name", "desc", "args", "arg_types")})
        copied.has_kwargs = tool.has_kwargs
        copied._session = session
        return copied

    def __call__(self, **args: Any) -> Any:
        verdict = self._session.before(None, str(self.name), args)
        if isinstance(verdict, Denied):
            return verdict.text
        with self._session.reporting(verdict.call_id):
            result = super().__call__(**verdict.args)
        return self._ended(verdict.call_id, result)

    async def acall(self, **args: Any) -> Any:
        verdict = await self._session.before_async(None, str(self.name), args)
        if isinstance(verdict, Denied):
            return verdict.text
        with self._session.reporting(verdict.call_id):
            result = await super().acall(**verdict.args)
        return self._ended(verdict.call_id, result)

    def _ended(self, call_id: str, result: Any) -> Any:
        hints = self._session.after(call_id, result)
        return with_hints(str(result), hints) if hints else result


def usage_of(by_model: Mapping[str, Mapping[str, Any]]) -> Usage | None:
    """The tokens of a turn, as DSPy counts them for each model that took part."""
    if not by_model:
        return None
    used = by_model.values()
    cached = sum((one.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for one in used)
    inputs, outputs = (sum(one.get(name) or 0 for one in used) for name in ("prompt_tokens", "completion_tokens"))
    return tokens(inputs, outputs, cached)


def _text_of(prediction: Any) -> str | None:
    """What the model thought; of the last turn, its answers."""
    thought = prediction.get("next_thought")
    return str(thought) if thought is not None else "\n".join(str(value) for _, value in prediction.items())
