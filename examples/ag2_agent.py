"""An agent of AG2 behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import asyncio

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.ag2 import HaltlineMiddleware


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


async def main() -> None:
    """Run the agent until it is stopped."""
    calls = [ToolCallEvent("delete_asset", arguments='{"asset_id": "fact_sales"}') for _ in range(10)]
    model = TestConfig(*calls, raise_tool_errors=False)
    # A real model, with its key in ANTHROPIC_API_KEY (pip install 'ag2[anthropic]'; from ag2.config ...):
    # model = AnthropicConfig(model="claude-sonnet-4-5")
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = Agent("cleaner", config=model, tools=[delete_asset], middleware=[HaltlineMiddleware(guard)])
        try:
            await agent.ask("Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    asyncio.run(main())
