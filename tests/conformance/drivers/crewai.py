"""A crew of one agent within the block that guards it."""

import os
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_DISABLE_TRACKING": "true", "OTEL_SDK_DISABLED": "true"}

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.crewai import guarded
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Run, Script, stops

ADAPTER = "crewai"
# Hooks have no ids; long results become files that the model reads.
LACKS = frozenset({"call_ids", "long_results", "subagents"})
SYNC, ASYNC = True, False


class Scripted(BaseLLM):
    script: Any = None
    seen: Any = None

    def call(self, messages: Any, tools: Any = None, **options: Any) -> Any:
        self.seen.turns += 1
        results = [m for m in messages if m.get("role") == "tool"] if isinstance(messages, list) else []
        results.sort(key=lambda m: m["tool_call_id"])
        self.seen.read = [str(m["content"]) for m in results]
        self._track_token_usage_internal(
            {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "cached_prompt_tokens": CACHED}
        )
        calls = next(self.script)
        if not calls:
            return END
        return [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.written}}
            for call in calls
        ]

    def supports_function_calling(self) -> bool:
        return True


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    seen = Run()
    llm = Scripted(model="scripted", script=iter([*script, []]), seen=seen)
    agent = Agent(role="a", goal="work", backstory="none", llm=llm, tools=[tool(function) for function in TOOLS])
    task = Task(description="work", expected_output="anything", agent=agent)
    with stops(seen), guarded(guard, effects=EFFECTS):
        Crew(agents=[agent], tasks=[task], cache=False).kickoff()
    return seen
