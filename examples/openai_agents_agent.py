"""An agent of the OpenAI Agents SDK behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import asyncio
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    ToolInputGuardrailTripwireTriggered,
    Usage,
    function_tool,
)
from openai.types.responses import ResponseFunctionToolCall

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.openai_agents import HaltlineAgents


@function_tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(Model):
    """A model that requests the same call at every turn."""

    def __init__(self) -> None:
        self._turn = 0

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the next turn."""
        self._turn += 1
        call = ResponseFunctionToolCall(
            type="function_call",
            call_id=f"c{self._turn}",
            name="delete_asset",
            arguments='{"asset_id": "fact_sales"}',
        )
        return ModelResponse(output=[call], usage=Usage(requests=1, input_tokens=10, output_tokens=5), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Not used."""
        raise NotImplementedError


async def main() -> None:
    """Run the agent until it is stopped."""
    model = Script()
    # A real model, with its key in OPENAI_API_KEY:
    # model = "gpt-5"
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        adapter = HaltlineAgents(guard)
        agent = Agent(name="cleaner", model=model, tools=adapter.guarded([delete_asset]))
        quiet = RunConfig(tracing_disabled=True)
        try:
            await Runner.run(agent, "Tidy up the warehouse.", hooks=adapter.hooks, run_config=quiet)
        except (ToolInputGuardrailTripwireTriggered, Refused):
            if guard.stopped is None:
                raise
            print(f"stopped: {guard.stopped.code}")


if __name__ == "__main__":
    asyncio.run(main())
