"""An agent of Pydantic AI behind haltline, with a scripted model: `python examples/pydantic_ai_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import sys

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.pydantic_ai import HaltlineCapability


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


def script(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    """The same call at every turn."""
    return ModelResponse(parts=[ToolCallPart("delete_asset", {"asset_id": "fact_sales"})])


def main(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        agent = Agent(FunctionModel(script), tools=[delete_asset], capabilities=[HaltlineCapability(guard)])
        try:
            agent.run_sync("Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    main(sys.argv[1])
