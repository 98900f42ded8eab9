"""An agent of the OpenAI Agents SDK behind haltline, with a scripted model: `python ... BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import asyncio
import sys
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

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.openai_agents import HaltlineAgents


@function_tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(Model):
    """Asks for the same call at every turn."""

    def __init__(self) -> None:
        self._turn = 0

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """The next turn."""
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


async def run(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    async with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        haltline = HaltlineAgents(guard)
        agent = Agent(name="cleaner", model=Script(), tools=haltline.guarded([delete_asset]))
        quiet = RunConfig(tracing_disabled=True)
        try:
            await Runner.run(agent, "Tidy up the warehouse.", hooks=haltline.hooks, run_config=quiet)
        except (ToolInputGuardrailTripwireTriggered, Refused) as stopped:
            print(f"stopped: {type(stopped).__name__}")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
