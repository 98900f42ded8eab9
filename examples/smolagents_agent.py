"""An agent of smolagents behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

from typing import Any

from smolagents import AgentError, ChatMessage, LogLevel, MessageRole, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from haltline import Guard, GuardSettings, Refused
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
    """A model that requests the same call at every turn."""

    def generate(self, *args: Any, **kwargs: Any) -> ChatMessage:
        """Return the next turn."""
        call = ChatMessageToolCallFunction({"asset_id": "fact_sales"}, "delete_asset")
        return ChatMessage(MessageRole.ASSISTANT, "", [ChatMessageToolCall(call, "c1", "function")])


def main() -> None:
    """Run the agent until it is stopped."""
    model = Script()
    # A real model, with its key in OPENAI_API_KEY (pip install 'smolagents[openai]'; from smolagents ...):
    # model = OpenAIModel("gpt-5")
    with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = guarded(ToolCallingAgent(tools=[delete_asset], model=model, verbosity_level=LogLevel.OFF), guard)
        try:
            agent.run("Tidy up the warehouse.")
        except AgentError as error:
            if not isinstance(error.__cause__, Refused):
                raise
            print(f"stopped: {error.__cause__.code}")


if __name__ == "__main__":
    main()
