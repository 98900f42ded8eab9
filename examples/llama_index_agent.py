"""An agent of LlamaIndex behind haltline, with a scripted model: `python examples/llama_index_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import asyncio
import sys
from typing import Any

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.llama_index import guarded


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(CustomLLM):
    """Asks for the same call at every turn."""

    @property
    def metadata(self) -> LLMMetadata:
        """Nothing in particular."""
        return LLMMetadata()

    def complete(self, prompt: str, **kwargs: Any) -> CompletionResponse:
        """The next turn."""
        text = 'Thought: I delete it.\nAction: delete_asset\nAction Input: {"asset_id": "fact_sales"}'
        return CompletionResponse(text=text)

    def stream_complete(self, prompt: str, **kwargs: Any) -> Any:
        """Not used."""
        raise NotImplementedError


async def run(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    async with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        agent = guarded(ReActAgent(tools=[delete_asset], llm=Script(), streaming=False), guard)
        try:
            await agent.run("Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
