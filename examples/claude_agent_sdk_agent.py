"""An agent of the Claude Agent SDK behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py

The model is an HTTP server in this process, so that the SDK's Claude Code runs unchanged.
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

from haltline import Guard, GuardSettings
from haltline.interventions.agent.integrations.claude_agent_sdk import haltline_hooks


@tool("delete_asset", "Deletes an asset.", {"asset_id": str})
async def delete_asset(args: dict[str, Any]) -> dict[str, Any]:
    """Deletes an asset."""
    print(f"deleted {args['asset_id']}")
    return {"content": [{"type": "text", "text": f"{args['asset_id']} still exists"}]}


class Script(BaseHTTPRequestHandler):
    """A model that requests the same call at every turn."""

    turns = 0

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        """Send the next turn as a stream, like Anthropic's API."""
        self.rfile.read(int(self.headers["content-length"]))
        Script.turns += 1
        use = {"type": "tool_use", "id": f"c{self.turns}", "name": "mcp__assets__delete_asset", "input": {}}
        message = {"id": f"m{self.turns}", "type": "message", "role": "assistant", "model": "scripted", "content": []}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": use},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"asset_id": "fact_sales"}'},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


async def run(model: dict[str, str], home: str) -> None:
    """Run the agent until it is stopped."""
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        options = ClaudeAgentOptions(
            mcp_servers={"assets": create_sdk_mcp_server("assets", tools=[delete_asset])},
            allowed_tools=["mcp__assets__delete_asset"],
            tools=[],
            model="claude-sonnet-4-5",
            max_turns=10,
            setting_sources=[],
            cwd=home,
            hooks=haltline_hooks(guard),
            env={**model, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "HOME": home},
        )
        async for _ in query(prompt="Tidy up the warehouse.", options=options):
            pass
        if guard.stopped is not None:
            print(f"stopped: {guard.stopped.code}")


def main() -> None:
    """Serve the model, and run the agent."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Script) as server, TemporaryDirectory() as home:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}", "ANTHROPIC_API_KEY": "none"}
        # The real model, with its key in ANTHROPIC_API_KEY:
        # model = {}
        asyncio.run(run(model, home))
        server.shutdown()


if __name__ == "__main__":
    main()
