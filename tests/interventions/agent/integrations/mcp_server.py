"""A server of the official SDK with a few tools; it writes every call that reaches it to the file that is named."""

import sys
from collections.abc import Callable
from pathlib import Path
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


def write(what: str) -> None:
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


if __name__ == "__main__":
    server_of(write).run()
