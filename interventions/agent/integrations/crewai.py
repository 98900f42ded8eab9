"""CrewAI: hooks for the crews, flows and agents that run within a block.

    with guarded(guard):
        crew.kickoff()

Each call of a tool goes through the guard. A refused one is blocked, and the model reads why; when the session was
stopped, HookAborted, whose `__cause__` is Refused, ends the run before the model's next turn. Hints are added to the
result of their call. CrewAI ignores all other exceptions of a hook, so these hooks raise no other. Needs crewai
(`pip install 'haltline[crewai]'`).
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from crewai.hooks.dispatch import HookAborted, InterceptionPoint, scoped_hooks

from haltline.interventions.agent.frame.session import Denied, FrameworkSession, not_checked, tokens, with_hints
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Effect

log: Final = logging.getLogger("haltline.agent")
_ERROR: Final = "Error executing tool: "


@contextlib.contextmanager
def guarded(guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> Iterator[None]:
    """Guard everything that runs within the block. One guard is one session.

    `effects`: the effects of tools, by name, where their names do not show them.
    """
    hooks = _Hooks(FrameworkSession(guard, effects=effects))
    points = InterceptionPoint
    with scoped_hooks(
        {
            points.PRE_TOOL_CALL: [hooks.before],
            points.POST_TOOL_CALL: [hooks.after],
            points.PRE_MODEL_CALL: [hooks.before_turn],
            points.POST_MODEL_CALL: [hooks.after_turn],
        }
    ):
        yield


class _Hooks:
    def __init__(self, session: FrameworkSession) -> None:
        self._session = session
        # A call has no id: both of its hooks get the same dictionary of arguments.
        self._calls: dict[int, str | Denied] = {}
        self._counted: dict[int, tuple[int, int, int]] = {}

    def before(self, context: Any) -> None:
        try:
            verdict = self._session.before(None, context.tool_name, context.tool_input)
        except Exception as error:
            refused = error if isinstance(error, Refused) else not_checked()
            if refused is not error:
                log.exception("haltline: session %s: a call could not be checked", self._session.guard.session_id)
            verdict = Denied.of(refused)
        if isinstance(verdict, Denied):
            self._calls[id(context.tool_input)] = verdict
            raise HookAborted(verdict.text, "haltline") from verdict.refused
        self._calls[id(context.tool_input)] = verdict.call_id
        if verdict.changed:
            context.tool_input.clear()
            context.tool_input.update(verdict.args)

    def after(self, context: Any) -> str | None:
        call = self._calls.pop(id(context.tool_input), None)
        if isinstance(call, Denied):
            return call.text
        if call is None:
            return None
        result = context.tool_result or ""
        failed = result.removeprefix(_ERROR) if result.startswith(_ERROR) else None
        hints = self._session.after(call, result, error=failed)
        return with_hints(result, hints) if hints else None

    def before_turn(self, context: Any) -> None:
        try:
            self._session.before_turn()
        except Exception as stopped:  # CrewAI ignores all exceptions except its own
            raise HookAborted(str(stopped), "haltline") from stopped
        self._turn(context, None)

    def after_turn(self, context: Any) -> None:
        self._turn(context, context.response)

    def _turn(self, context: Any, output: object) -> None:
        """Publish the usage of a model since the last call; CrewAI may call no hook after turns with tool calls."""
        used = context.llm.get_token_usage_summary() if hasattr(context.llm, "get_token_usage_summary") else None
        counts = (0, 0, 0) if used is None else (used.prompt_tokens, used.completion_tokens, used.cached_prompt_tokens)
        known = self._counted.get(id(context.llm), counts)  # earlier usage is not of this session
        self._counted[id(context.llm)] = counts
        new = tuple(max(now - before, 0) for now, before in zip(counts, known, strict=True))
        if any(new) or output:
            self._session.turn(tokens(*new), output if isinstance(output, str) else None)
