"""A host of agent-hooks, as small as can be, around the SDK's own emitter, with the interceptor."""

import asyncio
import json
from typing import Any

from agent_hooks import AgentContextBuilder, InterceptionBlocked, InterceptionEmitter

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.agent_hooks import HaltlineInterceptor
from tests.conformance.harness import EFFECTS, END, INPUT, OUTPUT, TOOL, Call, Run, Script, arguments_or_none

ADAPTER = "agent-hooks"
LACKS = frozenset({"cached_tokens", "subagents"})  # usage has no field for them
SYNC, ASYNC = False, True


class Host:
    def __init__(self, guard: Guard) -> None:
        self.seen = Run()
        self._emitter = InterceptionEmitter().register(HaltlineInterceptor(guard, effects=EFFECTS), name="haltline")
        self._builder = AgentContextBuilder(agent_id="a", framework="tests", session_id="s1")
        self._results: list[str] = []

    async def run(self, script: Script) -> None:
        """A model's call that is denied ends the run, a tool's is an error that the model reads."""
        build, emit = self._builder, self._emitter.emit
        try:
            await emit(build.agent_startup(tools_registered=list(TOOL)))
            for calls in [*script, []]:
                await emit(build.pre_model_call(model_id="scripted", messages=[]))
                self.seen.turns += 1
                self.seen.read = list(self._results)
                usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT}
                await emit(
                    build.post_model_call(
                        model_id="scripted",
                        content="" if calls else END,
                        tool_calls=[],
                        finish_reason="stop",
                        usage=usage,
                    )
                )
                self._results += await asyncio.gather(*map(self._call, calls))
        except InterceptionBlocked as blocked:
            self.seen.stopped = str(blocked.result.verdict.message)
        await emit(build.agent_shutdown(reason="completed"))

    async def _call(self, call: Call) -> str:
        args = arguments_or_none(call.args)
        if args is None:
            return "no JSON"
        try:
            before = await self._emitter.emit(self._builder.pre_tool_call(call_id=call.id, name=call.name, args=args))
        except InterceptionBlocked as blocked:
            return str(blocked.result.verdict.message)
        is_error = False
        try:
            value: Any = TOOL[call.name](**before.target)
        except ValueError as error:
            value, is_error = str(error), True
        after = await self._emitter.emit(
            self._builder.post_tool_call(
                call_id=call.id, name=call.name, args=before.target, value=value, is_error=is_error
            )
        )
        return after.target if isinstance(after.target, str) else json.dumps(after.target)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    host = Host(guard)
    asyncio.run(host.run(script))
    return host.seen
