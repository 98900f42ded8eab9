"""Strands Agents: hooks of an agent.

    agent = Agent(model=model, tools=[delete_asset], hooks=[HaltlineHooks(guard)])

Each call of a tool goes through the guard. A refused one is cancelled, and the model reads why; when the session was
stopped, the run ends before the model's next turn with EventLoopException, whose `__cause__` is Refused. Hints are
added to the result of their call.
Needs strands-agents (`pip install 'haltline[strands]'`).
"""

from typing import Any

from strands.hooks import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookProvider,
    HookRegistry,
)

from haltline.interventions.agent.frame.calls import Adapter
from haltline.interventions.agent.frame.session import Denied
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Usage


class HaltlineHooks(Adapter, HookProvider):
    """Passes every tool call and model turn through a guard. One guard is one session."""

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register the callbacks; called by Strands."""
        registry.add_callback(BeforeModelCallEvent, self._before_turn)
        registry.add_callback(AfterModelCallEvent, self._after_turn)
        registry.add_callback(BeforeToolCallEvent, self._before)
        registry.add_callback(AfterToolCallEvent, self._after)

    async def _before(self, event: BeforeToolCallEvent) -> None:
        call = event.tool_use
        try:
            verdict = await self._session.before_async(call["toolUseId"], call["name"], call["input"])
        except Refused as stopped:
            event.cancel_tool = str(stopped)  # the run ends before the model's next turn
            return
        if isinstance(verdict, Denied):
            event.cancel_tool = verdict.text
        elif verdict.changed:
            event.tool_use = {**call, "input": verdict.args}

    async def _after(self, event: AfterToolCallEvent) -> None:
        texts = [block["text"] for block in event.result["content"] if "text" in block]
        output: Any = "\n".join(texts) if len(texts) == len(event.result["content"]) else event.result["content"]
        failed = event.exception or (str(output) if event.result["status"] == "error" else None)
        hints = self._session.after(event.tool_use["toolUseId"], output, error=failed)
        if hints:
            event.result = {**event.result, "content": [*event.result["content"], {"text": hints}]}

    async def _before_turn(self, event: BeforeModelCallEvent) -> None:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        await self._session.before_turn_async()

    async def _after_turn(self, event: AfterModelCallEvent) -> None:
        if event.stop_response is None:
            return
        message = event.stop_response.message
        used = message.get("metadata", {}).get("usage")
        usage = None
        if used is not None:  # here the input does not include cached tokens
            usage = Usage(
                input_tokens=used["inputTokens"] + used.get("cacheWriteInputTokens", 0),
                output_tokens=used["outputTokens"],
                cache_read_tokens=used.get("cacheReadInputTokens", 0),
            )
        self._session.turn(usage, "\n".join(block["text"] for block in message["content"] if "text" in block))
