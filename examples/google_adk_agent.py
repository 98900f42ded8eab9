"""An agent of Google's ADK behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.google_adk import HaltlinePlugin


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(BaseLlm):
    """A model that requests the same call at every turn."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next turn."""
        call = types.Part.from_function_call(name="delete_asset", args={"asset_id": "fact_sales"})
        yield LlmResponse(content=types.Content(role="model", parts=[call]))


async def main() -> None:
    """Run the agent until it is stopped."""
    model = Script(model="scripted")
    # A real model, with its key in GOOGLE_API_KEY:
    # model = "gemini-2.5-flash"
    agent = LlmAgent(name="cleaner", model=model, tools=[delete_asset])
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
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
    asyncio.run(main())
