"""An agent of Google's ADK behind haltline, with a scripted model: `python examples/google_adk_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.google_adk import HaltlinePlugin


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(BaseLlm):
    """Asks for the same call at every turn."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The next turn."""
        call = types.Part.from_function_call(name="delete_asset", args={"asset_id": "fact_sales"})
        yield LlmResponse(content=types.Content(role="model", parts=[call]))


async def run(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    agent: Any = LlmAgent(name="cleaner", model=Script(model="scripted"), tools=[delete_asset])
    async with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        runner = InMemoryRunner(agent, app_name="tidy", plugins=[HaltlinePlugin(guard)])
        session = await runner.session_service.create_session(app_name="tidy", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="Tidy up the warehouse.")])
        try:
            async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
                pass
        except RuntimeError as error:
            if not isinstance(error.__cause__, Refused):
                raise
            print(f"stopped: {error.__cause__.code}")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
