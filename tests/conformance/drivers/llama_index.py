"""A FunctionAgent of LlamaIndex behind the guard."""

import asyncio
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata, MessageRole
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.llama_index import guarded
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Run, Script, stops

ADAPTER = "llama-index"
LACKS = frozenset({"call_ids", "subagents"})  # tools are called without the id of their call
SYNC, ASYNC = False, True


class Scripted(FunctionCallingLLM):
    script: Any
    seen: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    async def achat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any) -> Any:
        self.seen.turns += 1
        results = [m for m in chat_history if m.role is MessageRole.TOOL]
        results.sort(key=lambda m: m.additional_kwargs["tool_call_id"])  # those of one turn come as they end
        self.seen.read = [m.content or "" for m in results]
        calls = next(self.script)
        usage = {
            "prompt_tokens": INPUT,
            "completion_tokens": OUTPUT,
            "prompt_tokens_details": {"cached_tokens": CACHED},
        }
        message = ChatMessage(
            role=MessageRole.ASSISTANT, content="" if calls else END, additional_kwargs={"calls": list(calls)}
        )
        return ChatResponse(message=message, raw={"usage": usage})

    def get_tool_calls_from_response(self, response: Any, **_: Any) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=c.id, tool_name=c.name, tool_kwargs=c.args if isinstance(c.args, dict) else {})
            for c in response.message.additional_kwargs["calls"]
        ]

    def _prepare_chat_with_tools(self, *_: Any, **__: Any) -> Any: ...
    def chat(self, *_: Any, **__: Any) -> Any: ...
    async def achat(self, *_: Any, **__: Any) -> Any: ...
    def complete(self, *_: Any, **__: Any) -> Any: ...
    async def acomplete(self, *_: Any, **__: Any) -> Any: ...
    def stream_chat(self, *_: Any, **__: Any) -> Any: ...
    async def astream_chat(self, *_: Any, **__: Any) -> Any: ...
    def stream_complete(self, *_: Any, **__: Any) -> Any: ...
    async def astream_complete(self, *_: Any, **__: Any) -> Any: ...


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    seen = Run()
    llm = Scripted(script=iter([*script, []]), seen=seen)

    async def work() -> None:
        tools: Any = [FunctionTool.from_defaults(function) for function in TOOLS]
        agent = guarded(FunctionAgent(tools=tools, llm=llm, streaming=False), guard, effects=EFFECTS)
        await agent.run("work")

    with stops(seen):
        asyncio.run(work())
    return seen
