"""An agent whose tools are an MCP server's, behind haltline: `python examples/mcp_agent.py BOOTSTRAP`.

The proxy stands where the server's command was. The agent deletes the same thing again and again; haltline stops it.
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


async def run(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    proxy = ["-m", "haltline.cli", "mcp-proxy", "--bootstrap", bootstrap, "--agent-id", "cleaner"]
    command = [sys.executable, __file__, "serve"]
    waits = {"HALTLINE_BUDGET_S": "20", "HALTLINE_START_BUDGET_S": "20"}
    parameters = StdioServerParameters(
        command=sys.executable, args=[*proxy, "--", *command], env={**os.environ, **waits}
    )
    async with Client(parameters) as client:
        for _ in range(10):
            result = await client.call_tool("delete_asset", {"asset_id": "fact_sales"})
            text = result.content[0].text
            if result.is_error:
                print(f"stopped: {text.split(':')[0]}")
                break
            print(text)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        server.run()
    else:
        asyncio.run(run(sys.argv[1]))
