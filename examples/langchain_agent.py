"""An agent of LangChain behind haltline, with a scripted model: `python examples/langchain_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import sys

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.langchain import HaltlineMiddleware


@tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(GenericFakeChatModel):
    """Says what it was told to say."""

    def bind_tools(self, tools: object, **kwargs: object) -> "Script":  # type: ignore[override]  # it ignores them
        """The script knows its tools."""
        return self


def turns() -> list[AIMessage]:
    """The same call, ten times."""
    calls = [[{"name": "delete_asset", "args": {"asset_id": "fact_sales"}, "id": f"c{n}"}] for n in range(10)]
    return [AIMessage("", tool_calls=call) for call in calls]


def main(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        agent = create_agent(Script(messages=iter(turns())), [delete_asset], middleware=[HaltlineMiddleware(guard)])
        try:
            agent.invoke({"messages": [("user", "Tidy up the warehouse.")]})
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    main(sys.argv[1])
