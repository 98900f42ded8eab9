"""An agent of the Microsoft Agent Framework behind haltline, with a scripted model: `python ... BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import asyncio
import sys
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    MiddlewareFailure,
    tool,
)

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.agent_framework import haltline_middleware


@tool(approval_mode="never_require")
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Asks for the same call at every turn."""

    turns = 0

    async def _inner_get_response(self, **kwargs: Any) -> ChatResponse[Any]:
        self.turns += 1
        call = Content.from_function_call(f"c{self.turns}", "delete_asset", arguments={"asset_id": "fact_sales"})
        return ChatResponse(messages=[Message(role="assistant", contents=[call])])


async def run(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    async with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        agent = Agent(client=Script(), tools=[delete_asset], middleware=haltline_middleware(guard))
        try:
            await agent.run("Tidy up the warehouse.")
        except MiddlewareFailure as failure:  # a call of a function
            if not isinstance(failure.__cause__, Refused):
                raise
            print(f"stopped: {failure.__cause__.code}")
        except Refused as refused:  # a turn of the model
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
