"""An agent whose tools are an MCP server's, behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py

The proxy replaces the server's command.
"""

import asyncio
import os
import sys

from mcp import StdioServerParameters
from mcp.client import Client
from mcp.server import MCPServer

server = MCPServer("warehouse")


@server.tool()
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    return f"{asset_id} still exists"


async def main() -> None:
    """Run the agent until it is stopped."""
    proxy = ["-m", "haltline.cli", "mcp-proxy", "--agent-id", "cleaner"]
    command = [sys.executable, __file__, "serve"]
    parameters = StdioServerParameters(command=sys.executable, args=[*proxy, "--", *command], env={**os.environ})
    async with Client(parameters) as client:
        for _ in range(10):
            result = await client.call_tool("delete_asset", {"asset_id": "fact_sales"})
            text = result.content[0].text
            if result.is_error:
                print(f"stopped: {text}")
                break
            print(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
    else:
        asyncio.run(main())
