"""An agent of Strands with the hooks."""

import asyncio
import json
from typing import Any

from strands import Agent, tool
from strands.models import Model

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.strands import HaltlineHooks
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Run, Script, stops

ADAPTER = "strands"
LACKS = frozenset({"subagents"})
SYNC = ASYNC = True


class Scripted(Model):
    def __init__(self, script: Script) -> None:
        self.run = Run()
        self._turns = iter([*script, []])

    def update_config(self, **model_config: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.run.turns += 1
        results = [block["toolResult"] for m in messages for block in m["content"] if "toolResult" in block]
        self.run.read = ["\n\n".join(text_of(block) for block in result["content"]) for result in results]
        calls = next(self._turns)
        yield {"messageStart": {"role": "assistant"}}
        for call in calls:
            use = {"toolUseId": call.id, "name": call.name}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.written}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": END}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}
        usage = {"inputTokens": INPUT - CACHED, "outputTokens": OUTPUT, "totalTokens": INPUT - CACHED + OUTPUT}
        yield {"metadata": {"usage": {**usage, "cacheReadInputTokens": CACHED}, "metrics": {"latencyMs": 1}}}


def text_of(block: dict[str, Any]) -> str:
    return str(block["text"]) if "text" in block else json.dumps(block.get("json"))


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    model = Scripted(script)
    with stops(model.run):
        agent = Agent(
            model=model,
            tools=[tool(function) for function in TOOLS],
            hooks=[HaltlineHooks(guard, effects=EFFECTS)],
            callback_handler=None,
        )
        _ = asyncio.run(agent.invoke_async("work")) if is_async else agent("work")
    return model.run
