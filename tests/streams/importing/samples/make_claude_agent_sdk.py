"""claude_agent_sdk.jsonl: the transcript that Claude Code, within the Claude Agent SDK, writes to ~/.claude/projects.

Its model is a server of this process. A subagent has a file of its own in the session's folder `subagents`:
claude_agent_sdk_subagent.jsonl. `python make_claude_agent_sdk.py` in an environment with claude-agent-sdk; no network.
"""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, create_sdk_mcp_server, query, tool

HERE = Path(__file__).parent
AGENT = [
    *[("mcp__t__delete_asset", {"asset_id": "fact_sales"})] * 3,
    ("Agent", {"description": "clean", "prompt": "clean up fact_orders", "subagent_type": "helper",
               "run_in_background": False}),
    ("mcp__t__describe_asset", {"asset_id": "none"}),
]  # fmt: skip
HELPER = [("mcp__t__delete_asset", {"asset_id": "fact_orders"})]


class Scripted(BaseHTTPRequestHandler):
    """Anthropic's API, as far as Claude Code asks it: the calls of a script, one a turn, and then a text."""

    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        events = turn(asked) if self.path.startswith("/v1/messages?") else iter(())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, fields in events:
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode())


def turn(asked: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    is_agent = any(one["name"] == "Agent" for one in asked.get("tools", []))
    script, name = (AGENT, "a") if is_agent else (HELPER, "b")
    number = sum(message["role"] == "assistant" for message in asked["messages"])
    used = {"input_tokens": 200, "cache_read_input_tokens": 1000, "output_tokens": 80}
    message = {"id": f"msg_{name}{number}", "type": "message", "role": "assistant", "model": asked["model"]}
    yield "message_start", {"message": {**message, "content": [], "stop_reason": None, "usage": used}}
    if number < len(script):
        function, args = script[number]
        block = {"type": "tool_use", "id": f"call_{name}{number}", "name": function, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(args)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "I am done."}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    reason = "tool_use" if number < len(script) else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": reason}, "usage": {"output_tokens": 80}}
    yield "message_stop", {}


@tool("delete_asset", "Delete an asset.", {"asset_id": str})
async def delete_asset(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"{args['asset_id']} still exists"}]}


@tool("describe_asset", "Describe an asset.", {"asset_id": str})
async def describe_asset(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"no such asset: {args['asset_id']}"}], "is_error": True}


async def work(home: str, port: int) -> None:
    tools = ["mcp__t__delete_asset", "mcp__t__describe_asset"]
    options = ClaudeAgentOptions(
        mcp_servers={"t": create_sdk_mcp_server("t", tools=[delete_asset, describe_asset])}, allowed_tools=tools,
        tools=["Agent"], agents={"helper": AgentDefinition("cleans up", "clean up", tools=tools[:1])},
        setting_sources=[], model="claude-sonnet-4-5", cwd=home,
        env={
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HOME": home,
            "PATH": os.environ.get("PATH", ""),
        },
    )  # fmt: skip
    async for _ in query(prompt="clean up fact_sales", options=options):
        pass


def shown(line: str, home: str) -> str | None:
    """A line without what tells of the machine; left out is what describes it, and the long list of tools."""
    one = json.loads(line)
    if one["type"] in ("attachment", "api-request-shape"):
        return None
    text = json.dumps({name: "/work" if name == "cwd" else "" if name == "gitBranch" else one[name] for name in one})
    return None if home in text else text


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = mkdtemp()
    asyncio.run(work(home, server.server_port))
    server.shutdown()
    for file in Path(home, ".claude", "projects").rglob("*.jsonl"):
        lines = [text for line in file.read_text(encoding="utf-8").splitlines() if (text := shown(line, home))]
        name = "claude_agent_sdk_subagent" if file.parent.name == "subagents" else "claude_agent_sdk"
        (HERE / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
