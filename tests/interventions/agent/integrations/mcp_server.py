"""A server of the official SDK with a few tools; it writes every call that reaches it to the file that is named."""

import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("files")


def reached(what: str) -> None:
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_file(path: str) -> str:
    """Reads a file."""
    reached(f"read {path}")
    return f"text of {path}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def tidy(path: str) -> str:
    """Removes what is not needed."""
    reached(f"tidy {path}")
    return f"tidied {path}"


@server.tool()
def fail(path: str) -> str:
    """Fails."""
    raise ValueError(f"no such file: {path}")


if __name__ == "__main__":
    server.run()
