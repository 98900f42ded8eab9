"""agent-hooks 0.1, the open standard: an interceptor for every host that implements it.

    emitter = InterceptionEmitter().register(HaltlineInterceptor(guard), name="haltline")

A refused call is denied with the code as its reason and the text for the model as its message; with changed arguments
the verdict is a transform. When the session was stopped, each further call of a tool or a model is denied; the host
decides about the run. Hints are added to a result that is a text; otherwise they wait for the next one. Needs
agent-hooks-sdk (`pip install 'haltline[agent-hooks]'`).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from agent_hooks import Decision, Transform, Verdict

from haltline.interventions.agent.frame.calls import Adapter
from haltline.interventions.agent.frame.session import Denied, tokens, with_hints
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Usage

_MEMBER: Final = re.compile(r"[A-Za-z0-9_-]+")
"""Names that the standard's paths allow."""


class HaltlineInterceptor(Adapter):
    """Passes every tool call and model turn through a guard. One guard is one session."""

    async def intercept(self, context: Mapping[str, Any]) -> Verdict:
        """Return the verdict at one interception point."""
        point = context["interception_point"]
        try:
            if point in {"agent_startup", "pre_model_call"}:
                await self._session.before_turn_async()
            elif point == "pre_tool_call":
                return await self._before(context["tool_call"])
            elif point == "post_tool_call":
                return self._after(context["tool_call"], context["tool_result"])
            elif point == "post_model_call":
                content = context["response"].get("content")
                self._session.turn(usage_of(context.get("usage")), content if isinstance(content, str) else None)
            elif point == "agent_shutdown":
                self._session.abandon()
        except Refused as stopped:
            return Verdict.deny(reason=stopped.code, message=str(stopped))
        return Verdict.allow()

    async def _before(self, call: Mapping[str, Any]) -> Verdict:
        verdict = await self._session.before_async(call["id"], call["name"], call["args"])
        if isinstance(verdict, Denied):
            return Verdict.deny(reason=verdict.code, message=verdict.text)
        if verdict.changed:
            return Verdict(Decision.TRANSFORM, transform=transform_of(call["args"], verdict.args))
        return Verdict.allow()

    def _after(self, call: Mapping[str, Any], result: Mapping[str, Any]) -> Verdict:
        value = result["value"]
        hints = self._session.after(call["id"], value, error=str(value) if result.get("is_error") else None)
        if hints and isinstance(value, str):
            return Verdict(Decision.TRANSFORM, transform=Transform("$target", with_hints(value, hints)))
        self._session.keep(hints)
        return Verdict.allow()


def transform_of(proposed: Mapping[str, Any], args: Mapping[str, Any]) -> Transform:
    """Return the changed arguments; for a single one its own path, as hosts record the path without the value."""
    # By identity, as 1 == True: unchanged values are the same objects.
    put = [name for name, value in args.items() if name not in proposed or proposed[name] is not value]
    if len(put) == 1 and proposed.keys() == args.keys() and _MEMBER.fullmatch(put[0]):
        return Transform(f"$target.{put[0]}", args[put[0]])
    return Transform("$target", dict(args))


def usage_of(used: Mapping[str, int] | None) -> Usage | None:
    """Return the tokens of a turn, as far as the host reports them."""
    return None if not used else tokens(used.get("prompt_tokens"), used.get("completion_tokens"))
