"""A ReAct program of DSPy behind the guard."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import dspy

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.dspy import guarded
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Call, Run, Script, stops

ADAPTER = "dspy"
# A step is one call, without an id; an argument is always JSON.
LACKS = frozenset({"call_ids", "parallel_calls", "subagents"})
SYNC = ASYNC = True


class Scripted(dspy.BaseLM):  # type: ignore[misc]  # the library has no types
    def __init__(self, script: Script) -> None:
        super().__init__("scripted", cache=False)
        self.run = Run()
        self._turns = iter([*(turn[0] for turn in script), Call("finish"), None])

    def forward(self, prompt: Any = None, messages: Any = None, **options: Any) -> Any:
        self.run.turns += 1
        call = next(self._turns)
        fields = {"reasoning": END, "answer": END}
        if call is not None:
            thought = END if call.name == "finish" else "so"
            fields = {"next_thought": thought, "next_tool_name": call.name, "next_tool_args": call.written}
        text = "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())
        message = SimpleNamespace(content=f"{text}\n\n[[ ## completed ## ]]", tool_calls=None)
        used = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "prompt_tokens_details": {"cached_tokens": CACHED}}
        choice = SimpleNamespace(message=message, finish_reason="stop")
        return SimpleNamespace(choices=[choice], usage=used, model="scripted")

    async def aforward(self, prompt: Any = None, messages: Any = None, **options: Any) -> Any:
        return self.forward(prompt, messages, **options)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    lm = Scripted(script)
    program = guarded(dspy.ReAct("task -> answer", tools=list(TOOLS)), guard, effects=EFFECTS)
    shown = program._format_trajectory

    def show(trajectory: dict[str, Any]) -> Any:
        lm.run.read = [
            value if isinstance(value, str) else json.dumps(value)
            for name, value in trajectory.items()
            if name.startswith("observation_") and trajectory[name.replace("observation", "tool_name")] != "finish"
        ]
        return shown(trajectory)

    program._format_trajectory = show
    with stops(lm.run), dspy.context(lm=lm, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        _ = asyncio.run(program.acall(task="work")) if is_async else program(task="work")
    return lm.run
