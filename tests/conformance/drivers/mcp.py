"""The messages of an MCP client and server through the proxy's core, without the pipes between them."""

import asyncio
from typing import Any

from haltline.interventions.agent import Guard
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.integrations.mcp_calls import Calls, Message, Tools, texts_of
from tests.conformance.harness import EFFECTS, TOOL, Call, Run, Script, arguments_or_none, why

ADAPTER = "mcp"
# The proxy sees the calls of tools, not the turns of the model, which is the client's; so is the end of its run.
LACKS = frozenset(
    {"ends_the_run", "stops_before_a_turn", "usage", "cached_tokens", "model_output", "call_ids", "subagents"}
)  # fmt: skip
SYNC = ASYNC = True


def served(message: Message) -> Message:
    """The server's answer."""
    name, args = message["params"]["name"], message["params"]["arguments"]
    try:
        value: Any = TOOL[name](**args)
    except ValueError as error:
        result: Message = {"content": [{"type": "text", "text": str(error)}], "isError": True}
    else:
        result = {"content": [{"type": "text", "text": value if isinstance(value, str) else str(value)}]}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    seen = Run()
    calls = Calls(FrameworkSession(guard, effects=EFFECTS), Tools())
    numbers = iter(range(10_000))

    async def called(call: Call) -> str:
        args = arguments_or_none(call.args)
        if args is None:
            return "no JSON"
        message: Message = {"jsonrpc": "2.0", "id": next(numbers), "method": "tools/call"}
        message["params"] = {"name": call.name, "arguments": args}
        try:
            checked = await calls.ask_async(message) if is_async else await asyncio.to_thread(calls.ask, message)
        except RuntimeError as error:  # the proxy answers with an error, and asks no server
            return why(error)
        if checked.refusal is not None:
            return texts_of(checked.refusal["result"])
        answer = served(checked.changed or message)
        return texts_of((calls.answered(answer) or answer)["result"])

    async def turns() -> None:
        for turn in script:
            seen.turns += 1
            seen.read += await asyncio.gather(*map(called, turn))

    asyncio.run(turns())
    calls.abandon()
    return seen
