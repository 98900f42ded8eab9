"""An agent of Strands behind haltline, with a scripted model: `python examples/strands_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import sys
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.types.exceptions import EventLoopException

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.strands import HaltlineHooks


@tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(Model):
    """Asks for the same call at every turn."""

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
        """The next turn."""
        self.turns += 1
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": f"c{self.turns}", "name": "delete_asset"}}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"asset_id": "fact_sales"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


def main(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        agent = Agent(model=Script(), tools=[delete_asset], hooks=[HaltlineHooks(guard)], callback_handler=None)
        try:
            agent("Tidy up the warehouse.")
        except EventLoopException as error:
            if not isinstance(error.__cause__, Refused):
                raise
            print(f"stopped: {error.__cause__.code}")


if __name__ == "__main__":
    main(sys.argv[1])
