"""An agent of AG2 behind haltline, with a scripted model: `python examples/ag2_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import asyncio
import sys

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.ag2 import HaltlineMiddleware


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


async def run(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    calls = [ToolCallEvent("delete_asset", arguments='{"asset_id": "fact_sales"}') for _ in range(10)]
    script = TestConfig(*calls, raise_tool_errors=False)
    async with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        agent = Agent("cleaner", config=script, tools=[delete_asset], middleware=[HaltlineMiddleware(guard)])
        try:
            await agent.ask("Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
