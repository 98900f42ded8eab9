"""An agent of smolagents that writes code, in which its tools are functions."""

import re
from typing import Any

from smolagents import ActionStep, ChatMessage, CodeAgent, LogLevel, MessageRole, Model
from smolagents.models import TokenUsage

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.smolagents import guarded
from tests.conformance.drivers.smolagents import tool_of
from tests.conformance.harness import EFFECTS, END, INPUT, OUTPUT, TOOLS, Run, Script, stops

ADAPTER = "smolagents"
# Code has no calls with ids, and goes no further than a call that is refused; a model tells no cached tokens.
LACKS = frozenset({"call_ids", "cached_tokens", "parallel_calls", "subagents"})
SYNC, ASYNC = True, False


class Scripted(Model):
    def __init__(self, script: Script) -> None:
        super().__init__(model_id="scripted")
        self.run = Run()
        self.agent: Any = None
        self._turns = iter([*script, []])

    def generate(self, *args: Any, **options: Any) -> ChatMessage:
        self.run.turns += 1
        self.run.read = [text_of(step) for step in self.agent.memory.steps if isinstance(step, ActionStep)]
        lines = [
            f"print({call.name}({call.args if isinstance(call.args, str) else f'**{call.args!r}'}))"
            for call in next(self._turns)
        ] or [f"final_answer({END!r})"]
        code = "\n".join(lines)
        used = TokenUsage(input_tokens=INPUT, output_tokens=OUTPUT)
        return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{code}\n</code>", token_usage=used)


def text_of(step: ActionStep) -> str:
    """The output of the code, its error, and the hints."""
    shown = step.observations or ""
    printed = re.search(r"Execution logs:\n(.*?)\n?(?:Last output from code snippet:\nNone|\Z)(.*)", shown, re.DOTALL)
    parts = [printed[1], printed[2].strip()] if printed else [shown]
    return "\n".join(filter(None, [*parts, step.error.message if step.error is not None else ""]))


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    model = Scripted(script)
    tools = [tool_of(function) for function in TOOLS]
    model.agent = CodeAgent(
        tools=tools, model=model, verbosity_level=LogLevel.OFF, max_steps=20, max_print_outputs_length=200_000
    )
    guarded(model.agent, guard, effects=EFFECTS)
    with stops(model.run):
        model.agent.run("work")
    return model.run
