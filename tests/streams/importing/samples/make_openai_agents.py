"""openai_agents.jsonl: what a TracingProcessor of the OpenAI Agents SDK is given, as `export()` writes it.

The SDK's own models ask a server of this process: the agent by chat completions, its helper by responses.
`python make_openai_agents.py` in an environment with openai-agents; no network.
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_trace_processors,
)
from agents.tracing import TracingProcessor
from openai import AsyncOpenAI

FILE = Path(__file__).parent / "openai_agents.jsonl"
AGENT = [
    *[("delete_asset", {"asset_id": "fact_sales"})] * 3,
    ("delegate", {"input": "clean up fact_orders"}),
    ("describe_asset", {"asset_id": "none"}),
]
HELPER = [("delete_asset", {"asset_id": "fact_orders"})]


class Writer(TracingProcessor):
    """A line for each trace when it begins, and for each span when it ends."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_trace_start(self, trace: Any) -> None:
        self.lines.append(json.dumps(trace.export()))

    def on_span_end(self, span: Any) -> None:
        self.lines.append(json.dumps(span.export()))

    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


class Scripted(BaseHTTPRequestHandler):
    """Makes the calls of a script, one a turn, and then says that it is done."""

    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = responded(asked) if self.path.endswith("/responses") else completed(asked)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def completed(asked: dict[str, Any]) -> dict[str, Any]:
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": "I am done."}
    if turn < len(AGENT):
        name, args = AGENT[turn]
        function = {"name": name, "arguments": json.dumps(args)}
        call = {"id": f"call_a{turn}", "type": "function", "function": function}
        message = {"role": "assistant", "content": "I look again.", "tool_calls": [call]}
    return {
        "id": f"chatcmpl-{turn}", "object": "chat.completion", "created": 0, "model": "scripted-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if turn < len(AGENT) else "stop"}],
        "usage": {"prompt_tokens": 1200, "completion_tokens": 80, "total_tokens": 1280,
                  "prompt_tokens_details": {"cached_tokens": 1000}},
    }  # fmt: skip


def responded(asked: dict[str, Any]) -> dict[str, Any]:
    turn = sum(isinstance(one, dict) and one.get("type") == "function_call" for one in asked["input"])
    text = {"type": "output_text", "text": "I am done.", "annotations": []}
    output: dict[str, Any] = {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text],
    }  # fmt: skip
    if turn < len(HELPER):
        name, args = HELPER[turn]
        call = {"type": "function_call", "id": f"fc_{turn}", "call_id": f"call_b{turn}", "name": name}
        output = call | {"arguments": json.dumps(args), "status": "completed"}
    return {
        "id": f"resp_{turn}", "object": "response", "created_at": 0, "model": "scripted-1", "output": [output],
        "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "status": "completed",
        "usage": {"input_tokens": 1200, "output_tokens": 80, "total_tokens": 1280,
                  "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 0},
                  "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip


@function_tool
def delete_asset(asset_id: str) -> str:
    """Delete an asset."""
    return f"{asset_id} still exists"


@function_tool
def describe_asset(asset_id: str) -> str:
    """Describe an asset."""
    raise ValueError(f"no such asset: {asset_id}")


def main() -> None:
    server = HTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
    writer = Writer()
    set_trace_processors([writer])
    helper = Agent(name="helper", tools=[delete_asset], model=OpenAIResponsesModel("scripted-1", client))
    tools = [delete_asset, describe_asset, helper.as_tool("delegate", "Give a task to another agent.")]
    agent = Agent(name="cleaner", tools=tools, model=OpenAIChatCompletionsModel("scripted-1", client))
    config = RunConfig(workflow_name="clean up", group_id="night-7")
    asyncio.run(Runner.run(agent, "clean up fact_sales", run_config=config))
    server.shutdown()
    FILE.write_text("\n".join(writer.lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
