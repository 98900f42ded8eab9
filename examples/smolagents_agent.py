"""An agent of smolagents behind haltline, with a scripted model: `python examples/smolagents_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import sys
from typing import Any

from smolagents import AgentError, ChatMessage, LogLevel, MessageRole, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.smolagents import guarded


@tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset.

    Args:
        asset_id: Which one.

    """
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(Model):
    """Asks for the same call at every turn."""

    def generate(self, *args: Any, **kwargs: Any) -> ChatMessage:
        """The next turn."""
        call = ChatMessageToolCallFunction({"asset_id": "fact_sales"}, "delete_asset")
        return ChatMessage(MessageRole.ASSISTANT, "", [ChatMessageToolCall(call, "c1", "function")])


def main(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        agent = ToolCallingAgent(tools=[delete_asset], model=Script(), verbosity_level=LogLevel.OFF)
        try:
            guarded(agent, guard).run("Tidy up the warehouse.")
        except AgentError as error:
            if not isinstance(error.__cause__, Refused):
                raise
            print(f"stopped: {error.__cause__.code}")


if __name__ == "__main__":
    main(sys.argv[1])
