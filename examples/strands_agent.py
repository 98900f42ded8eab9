"""An agent of Strands behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.types.exceptions import EventLoopException

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.strands import HaltlineHooks

ARGUMENTS = '{"asset_id": "fact_sales"}'


@tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(Model):
    """A model that requests the same call, ten times."""

    turns = 0

    def update_config(self, **model_config: Any) -> None:
        """Not used."""

    def get_config(self) -> Any:
        """Not used."""
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Not used."""
        raise NotImplementedError

    async def stream(self, *args: Any, **kwargs: Any) -> Any:
        """Yield the next turn."""
        self.turns += 1
        use = {"toolUse": {"toolUseId": f"c{self.turns}", "name": "delete_asset"}}
        asks = self.turns <= 10
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": use if asks else {}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": ARGUMENTS}} if asks else {"text": "I give up."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if asks else "end_turn"}}


def main() -> None:
    """Run the agent until it is stopped."""
    model = Script()
    # A real model, with its key in ANTHROPIC_API_KEY (pip install 'strands-agents[anthropic]'):
    # model = AnthropicModel(model_id="claude-sonnet-4-5", max_tokens=1024)  # from strands.models.anthropic
    with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = Agent(model=model, tools=[delete_asset], hooks=[HaltlineHooks(guard)], callback_handler=None)
        try:
            agent("Tidy up the warehouse.")
        except EventLoopException as error:
            if not isinstance(error.__cause__, Refused):
                raise
            print(f"stopped: {error.__cause__.code}")


if __name__ == "__main__":
    main()
