"""An agent of Pydantic AI behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.pydantic_ai import HaltlineCapability


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


def script(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    """Return the same call at every turn."""
    return ModelResponse(parts=[ToolCallPart("delete_asset", {"asset_id": "fact_sales"})])


def main() -> None:
    """Run the agent until it is stopped."""
    model = FunctionModel(script)
    # A real model, with its key in ANTHROPIC_API_KEY (pip install 'pydantic-ai-slim[anthropic]'):
    # model = "anthropic:claude-sonnet-4-5"
    with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = Agent(model, tools=[delete_asset], capabilities=[HaltlineCapability(guard)])
        try:
            agent.run_sync("Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    main()
