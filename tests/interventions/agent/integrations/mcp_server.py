"""A server of the official SDK with a few tools."""

from collections.abc import Callable
from typing import Annotated

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field


def server_of(reached: Callable[[str], object]) -> MCPServer:
    """The server; `reached` is told of each call."""
    server = MCPServer("files")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def read_file(path: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Path"})]) -> str:
        reached(f"read {path}")
        return f"text of {path}"

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def tidy(path: str) -> str:
        reached(f"tidy {path}")
        return f"tidied {path}"

    @server.tool()
    def fail(path: str) -> str:
        raise ValueError(f"no such file: {path}")

    return server
