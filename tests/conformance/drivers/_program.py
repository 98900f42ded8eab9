"""A program without a framework, which asks before its calls and turns itself: through whatever has these methods."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from haltline.interventions.agent.frame.session import Allowed, Denied, with_hints
from haltline.schemas.events import Usage
from tests.conformance.harness import CACHED, END, INPUT, OUTPUT, TOOL, Call, Run, Script, why

USAGE = Usage(input_tokens=INPUT - CACHED, cache_read_tokens=CACHED, output_tokens=OUTPUT)


class Session(Protocol):
    """What `FrameworkSession` and `ServiceSession` have in common."""

    def before(self, call_id: str | None, name: str, args: Any = None) -> Allowed | Denied: ...

    async def before_async(self, call_id: str | None, name: str, args: Any = None) -> Allowed | Denied: ...

    def after(self, call_id: str, output: Any = None, *, error: BaseException | str | None = None) -> str: ...

    def before_turn(self) -> None: ...

    def turn(self, usage: Usage | None = None, output: str | None = None) -> None: ...


def play(session: Session, script: Script, *, is_async: bool) -> Run:
    """Play the script; the calls of one turn at the same time."""
    seen = Run()

    def called(call: Call) -> str:
        asked = session.before_async(call.id, call.name, call.args) if is_async else None
        verdict = session.before(call.id, call.name, call.args) if asked is None else asyncio.run(asked)  # type: ignore[arg-type]
        if isinstance(verdict, Denied):
            return verdict.text
        try:
            value = TOOL[call.name](**verdict.args)
        except Exception as error:
            return with_hints(str(error), session.after(verdict.call_id, error=error))
        return with_hints(value if isinstance(value, str) else str(value), session.after(verdict.call_id, value))

    try:
        with ThreadPoolExecutor(8) as pool:
            for calls in [*script, []]:
                session.before_turn()
                seen.turns += 1
                session.turn(USAGE, "" if calls else END)
                if len(calls) == 1:
                    seen.read.append(called(calls[0]))
                else:
                    seen.read += pool.map(called, calls)
    except Exception as error:  # Refused, or of a guard that breaks
        seen.stopped = why(error)
    return seen
