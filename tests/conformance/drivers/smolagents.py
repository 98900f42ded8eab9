"""An agent of smolagents that calls tools; those that write code: `smolagents_code`."""

from collections.abc import Callable
from typing import Any, cast

from smolagents import ActionStep, ChatMessage, LogLevel, MessageRole, Model, Tool, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, TokenUsage

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.smolagents import guarded
from tests.conformance.harness import EFFECTS, END, INPUT, OUTPUT, TOOLS, Call, Run, Script, stops

ADAPTER = "smolagents"
# Tools are called without the call's id; a model tells no cached tokens; a tool that returns None is not possible
# (its output is declared). Results of one turn are one observation.
LACKS = frozenset({"call_ids", "cached_tokens"})
SYNC, ASYNC = True, False


def tool_of(function: Callable[..., Any]) -> Tool:
    class Made(Tool):  # type: ignore[misc]  # the library has no types
        name = function.__name__
        description = function.__doc__ or ""
        inputs = {  # noqa: RUF012 - as the library wants it
            name: {"type": "string", "description": name} for name in function.__annotations__ if name != "return"
        }
        output_type = "string" if function.__annotations__["return"] is str else "any"
        skip_forward_signature_validation = True
        is_initialized = True

        def forward(self, **args: Any) -> Any:
            return function(**args)

    return cast("Tool", Made())


class Scripted(Model):  # type: ignore[misc]  # the library has no types
    def __init__(self, script: Script, read: Callable[[], list[str]]) -> None:
        super().__init__(model_id="scripted")
        self.run = Run()
        self._turns = iter([*script, [Call("final_answer", {"answer": END}, "end")]])
        self._read = read

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        self.run.turns += 1
        self.run.read = self._read()
        calls = [
            ChatMessageToolCall(ChatMessageToolCallFunction(call.args, call.name), call.id, "function")
            for call in next(self._turns)
        ]
        used = TokenUsage(input_tokens=INPUT, output_tokens=OUTPUT)
        last = calls[0].function.name == "final_answer"
        return ChatMessage(MessageRole.ASSISTANT, END if last else "", calls, token_usage=used)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    def read() -> list[str]:
        texts = []
        for step in agent.memory.steps:
            if isinstance(step, ActionStep):
                text = step.observations or ""
                error = step.error.message if step.error is not None else ""
                calls = len(step.tool_calls or [])
                texts += split(text, calls) if calls > 1 else ["\n".join(filter(None, (text, error)))]
        return texts

    model = Scripted(script, read)
    agent = ToolCallingAgent(
        tools=[tool_of(function) for function in TOOLS], model=model, verbosity_level=LogLevel.OFF, max_steps=20
    )
    guarded(agent, guard, effects=EFFECTS)
    with stops(model.run):
        agent.run("work")
    return model.run


def delegate(guard: Guard, script: Script) -> Run:
    below = Scripted(script, list)
    worker = ToolCallingAgent(
        tools=[tool_of(function) for function in TOOLS],
        model=below,
        name="worker",
        description="works",
        verbosity_level=LogLevel.OFF,
    )
    above = Scripted([[Call("worker", {"task": "work"}, "w")]], list)
    manager = ToolCallingAgent(tools=[], model=above, managed_agents=[worker], verbosity_level=LogLevel.OFF)
    guarded(manager, guard, effects=EFFECTS)
    with stops(above.run):
        manager.run("work")
    return above.run


def split(text: str, calls: int) -> list[str]:
    """One observation of several results, one line each, and their hints after them."""
    lines, _, hints = text.partition("\n\n")
    pairs = zip(lines.split("\n"), hints.split("\n") + [""] * calls, strict=False)
    return ["\n".join(filter(None, pair)) for pair in pairs]
