"""The SDK with the Claude Code that it carries, whose model is a server of this process."""

import asyncio
import inspect
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import mkdtemp
from typing import Any

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.claude_agent_sdk import haltline_hooks
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOL, TOOLS, Call, Run, Script, why

ADAPTER = "claude-agent-sdk"
# Usage is read from the transcript, texts are not; of calls in one turn all hints stand after the last result;
# a long result becomes a file that the model reads.
LACKS = frozenset({"model_output", "hints_by_call", "long_results"})
SYNC, ASYNC = False, True

OF_CLAUDE = re.compile(r"\n*<system-reminder>\n<total_tokens>.*", re.DOTALL)


class Scripted(ThreadingHTTPServer):
    """Anthropic's API, as far as Claude Code asks it."""

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.run = Run()
        self.turns = iter([*script, []])
        self.above: Iterator[list[Call]] | None = None
        """The turns of the agent, where the script is its subagent's."""


class Answer(BaseHTTPRequestHandler):
    server: Scripted

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        events = self.turn(asked) if self.path.startswith("/v1/messages?") else []
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, fields in events:
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode())

    def turn(self, asked: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        run = self.server.run
        run.turns += 1
        run.read = read_of(asked["messages"])
        is_above = any(one["name"] == "Agent" for one in asked.get("tools", []))
        calls = next(self.server.above if is_above and self.server.above is not None else self.server.turns)
        used = {"input_tokens": INPUT - CACHED, "cache_read_input_tokens": CACHED, "output_tokens": OUTPUT}
        message = {"id": f"m{run.turns}", "type": "message", "role": "assistant", "model": asked["model"]}
        yield "message_start", {"message": {**message, "content": [], "stop_reason": None, "usage": used}}
        for index, call in enumerate(calls):
            block = {
                "type": "tool_use",
                "id": call.id,
                "name": f"mcp__t__{call.name}" if call.name in TOOL else call.name,
                "input": {},
            }
            yield "content_block_start", {"index": index, "content_block": block}
            delta = {"type": "input_json_delta", "partial_json": call.written}
            yield "content_block_delta", {"index": index, "delta": delta}
            yield "content_block_stop", {"index": index}
        if not calls:
            yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
            yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": END}}
            yield "content_block_stop", {"index": 0}
        reason = "tool_use" if calls else "end_turn"
        yield "message_delta", {"delta": {"stop_reason": reason}, "usage": {"output_tokens": OUTPUT}}
        yield "message_stop", {}


def read_of(messages: list[dict[str, Any]]) -> list[str]:
    """The results, each with what Claude Code puts behind it for the model."""
    read: list[str] = []
    blocks = [block for m in messages if isinstance(m["content"], list) for block in m["content"]]
    for block in blocks:
        if block.get("type") == "tool_result":
            content = block["content"]
            text = content if isinstance(content, str) else "\n".join(one.get("text", "") for one in content)
            read.append(OF_CLAUDE.sub("", text))
        elif block.get("type") == "text" and read and "hook additional context" in block["text"]:
            read[-1] += "\n" + block["text"]
    return read


def tool_of(function: Callable[..., Any]) -> Any:
    async def call(args: dict[str, Any]) -> dict[str, Any]:
        result = await asyncio.to_thread(function, **args)
        text = result if isinstance(result, str) else json.dumps(result)
        return {"content": [{"type": "text", "text": text}]}

    parameters = dict.fromkeys(inspect.signature(function).parameters, str)
    return tool(function.__name__, function.__doc__ or "", parameters)(call)


async def work(guard: Guard, server: Scripted) -> None:
    home = mkdtemp()
    options = ClaudeAgentOptions(
        mcp_servers={"t": create_sdk_mcp_server("t", tools=[tool_of(function) for function in TOOLS])},
        allowed_tools=[f"mcp__t__{function.__name__}" for function in TOOLS],
        tools=["Agent"] if server.above is not None else [],
        agents={"worker": AgentDefinition("works", "work", tools=["mcp__t__work"])}
        if server.above is not None
        else None,
        setting_sources=[],
        model="claude-sonnet-4-5",
        cwd=home,
        hooks=haltline_hooks(guard, effects={f"mcp__t__{name}": effect for name, effect in EFFECTS.items()}),
        env={
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HOME": home,
            "PATH": os.environ.get("PATH", ""),
        },
    )
    result = None
    async for message in query(prompt="work", options=options):
        if isinstance(message, ResultMessage):
            result = message
    if result is None or result.result != END:
        server.run.stopped = f"{guard.stopped!r} {result}"


def delegate(guard: Guard, script: Script) -> Run:
    server = Scripted(script)
    task = {"description": "work", "prompt": "work", "subagent_type": "worker", "run_in_background": False}
    server.above = iter([[Call("Agent", task, "w")], []])
    return served(guard, server)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    return served(guard, Scripted(script))


def served(guard: Guard, server: Scripted) -> Run:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        asyncio.run(work(guard, server))
    except Exception as error:
        server.run.stopped = f"{guard.stopped!r} {why(error)}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    return server.run
