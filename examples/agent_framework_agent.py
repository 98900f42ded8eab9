"""An agent of the Microsoft Agent Framework behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import asyncio
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

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.agent_framework import haltline_middleware


@tool(approval_mode="never_require")
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A model that requests the same call at every turn."""

    turns = 0

    async def _inner_get_response(self, **kwargs: Any) -> ChatResponse[Any]:
        self.turns += 1
        call = Content.from_function_call(f"c{self.turns}", "delete_asset", arguments={"asset_id": "fact_sales"})
        return ChatResponse(messages=[Message(role="assistant", contents=[call])])


async def main() -> None:
    """Run the agent until it is stopped."""
    client = Script()
    # A real model, with its key in OPENAI_API_KEY (pip install agent-framework-openai):
    # client = OpenAIChatClient(model="gpt-5")  # from agent_framework.openai
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = Agent(client=client, tools=[delete_asset], middleware=haltline_middleware(guard))
        try:
            await agent.run("Tidy up the warehouse.")
        except (MiddlewareFailure, Refused):  # at a function call, or before a model turn
            if guard.stopped is None:
                raise
            print(f"stopped: {guard.stopped.code}")


if __name__ == "__main__":
    asyncio.run(main())
