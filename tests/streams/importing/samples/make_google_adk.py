"""google_adk.json: the JSON of a session of Google's ADK that its DatabaseSessionService kept in SQLite.

`python make_google_adk.py` in an environment with google-adk[db]; no network.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService
from google.genai import types

FILE = Path(__file__).parent / "google_adk.json"


class Scripted(BaseLlm):
    """Makes the calls that it was given, one a turn, and then says that it is done."""

    model: str = "scripted-1"
    name_of_calls: str
    calls: list[tuple[str, dict[str, Any]]]
    turn: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        number, self.turn = self.turn, self.turn + 1
        part = types.Part(text="I am done.")
        if number < len(self.calls):
            name, args = self.calls[number]
            call = types.FunctionCall(id=f"call_{self.name_of_calls}{number}", name=name, args=args)
            part = types.Part(function_call=call)
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=1200, candidates_token_count=80, cached_content_token_count=1000, total_token_count=1280
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=used)


def delete_asset(asset_id: str) -> dict[str, Any]:
    """Delete an asset."""
    return {"result": f"{asset_id} still exists"}


def describe_asset(asset_id: str) -> dict[str, Any]:
    """Describe an asset."""
    return {"error": f"no such asset: {asset_id}"}


async def run() -> str:
    helper = LlmAgent(
        name="helper",
        description="cleans up",
        tools=[delete_asset],
        model=Scripted(name_of_calls="b", calls=[("delete_asset", {"asset_id": "fact_orders"})]),
    )
    calls = [
        *[("delete_asset", {"asset_id": "fact_sales"})] * 3,
        ("describe_asset", {"asset_id": "none"}),
        ("transfer_to_agent", {"agent_name": "helper"}),
    ]
    agent = LlmAgent(
        name="cleaner",
        tools=[delete_asset, describe_asset],
        sub_agents=[helper],
        model=Scripted(name_of_calls="a", calls=calls),
    )
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{mkdtemp()}/sessions.db")
    session = await service.create_session(app_name="clean_up", user_id="u", session_id="night-7")
    runner = Runner(app_name="clean_up", agent=agent, session_service=service)
    message = types.Content(role="user", parts=[types.Part(text="clean up fact_sales")])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass
    whole = await service.get_session(app_name="clean_up", user_id="u", session_id="night-7")
    assert whole is not None
    return whole.model_dump_json(by_alias=True, exclude_none=True)


if __name__ == "__main__":
    FILE.write_text(asyncio.run(run()) + "\n", encoding="utf-8")
