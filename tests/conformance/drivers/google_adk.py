"""An agent of Google's ADK, run with the plugin."""

import asyncio
import json
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.google_adk import HaltlinePlugin
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Run, Script, stops

ADAPTER = "google-adk"
LACKS = frozenset({"reads_errors", "subagents"})  # a tool's exception ends the run
SYNC, ASYNC = False, True


class Scripted(BaseLlm):
    script: Any
    seen: Any

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        self.seen.turns += 1
        parts = [part for content in llm_request.contents for part in content.parts or []]
        self.seen.read = [text_of(part.function_response.response) for part in parts if part.function_response]
        calls = [
            types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=call.args))
            for call in next(self.script)
        ]
        yield LlmResponse(
            content=types.Content(role="model", parts=calls or [types.Part(text=END)]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=INPUT, candidates_token_count=OUTPUT, cached_content_token_count=CACHED
            ),
        )


def text_of(response: Any) -> str:
    """A result that is a dictionary is the response itself; else it is its `result`."""
    hints = [response["haltline"]] if "haltline" in response else []
    rest = {name: value for name, value in response.items() if name != "haltline"}
    whole = rest.get("result", rest.get("error", rest))
    return "\n".join([whole if isinstance(whole, str) else json.dumps(whole), *hints])


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    seen = Run()
    agent = LlmAgent(name="a", model=Scripted(model="scripted", script=iter([*script, []]), seen=seen), tools=[*TOOLS])

    async def work() -> None:
        runner = InMemoryRunner(agent, app_name="app", plugins=[HaltlinePlugin(guard, effects=EFFECTS)])
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="work")])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass

    with stops(seen):
        asyncio.run(work())
    return seen
