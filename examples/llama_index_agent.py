"""An agent of LlamaIndex behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import asyncio
from typing import Any

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.llama_index import guarded


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(CustomLLM):
    """A model that requests the same call at every turn."""

    @property
    def metadata(self) -> LLMMetadata:
        """Return the defaults."""
        return LLMMetadata()

    def complete(self, prompt: str, **kwargs: Any) -> CompletionResponse:
        """Return the next turn."""
        text = 'Thought: I delete it.\nAction: delete_asset\nAction Input: {"asset_id": "fact_sales"}'
        return CompletionResponse(text=text)

    def stream_complete(self, prompt: str, **kwargs: Any) -> Any:
        """Not used."""
        raise NotImplementedError


async def main() -> None:
    """Run the agent until it is stopped."""
    model = Script()
    # A real model, with its key in ANTHROPIC_API_KEY (pip install llama-index-llms-anthropic):
    # model = Anthropic(model="claude-sonnet-4-5")  # from llama_index.llms.anthropic
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = guarded(ReActAgent(tools=[delete_asset], llm=model, streaming=False), guard)
        try:
            await agent.run("Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    asyncio.run(main())
