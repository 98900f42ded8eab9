"""An agent of LangChain behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.langchain import HaltlineMiddleware


@tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(GenericFakeChatModel):
    """A model with scripted answers."""

    def bind_tools(self, tools: object, **kwargs: object) -> "Script":
        """Ignore the tools: the script knows them."""
        return self


def turns() -> list[AIMessage]:
    """Return the same call, ten times."""
    calls = [[{"name": "delete_asset", "args": {"asset_id": "fact_sales"}, "id": f"c{n}"}] for n in range(10)]
    return [AIMessage("", tool_calls=call) for call in calls]


def main() -> None:
    """Run the agent until it is stopped."""
    model = Script(messages=iter(turns()))
    # A real model, with its key in ANTHROPIC_API_KEY (pip install langchain-anthropic; from langchain_anthropic ...):
    # model = ChatAnthropic(model="claude-sonnet-4-5")
    with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = create_agent(model, [delete_asset], middleware=[HaltlineMiddleware(guard)])
        try:
            agent.invoke({"messages": [("user", "Tidy up the warehouse.")]})
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    main()
