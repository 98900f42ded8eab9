"""Puts the proxy before each server in a host's JSON file of MCP servers, such as .mcp.json."""

import json
import re
from typing import Any, Final

from haltline.cli.frameworks.source import CannotEdit

KEYS: Final = ("mcpServers", "servers")
"""The keys of the servers: Claude Code, Claude Desktop and Cursor; VS Code."""
_ADDRESSES: Final = ("url", "httpUrl", "serverUrl")
"""The keys of a server's address: most hosts; Gemini CLI; Windsurf."""
_HERE: Final = "http://127.0.0.1:"
"""The beginning of an address of `haltline mcp-proxy --url`."""


def behind_proxy(text: str) -> tuple[str, dict[str, str]]:
    """The file with `haltline mcp-proxy` before each server that is a command, indented as before.

    Returns also the servers at an address on other machines, by name: these stay. Raises CannotEdit.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CannotEdit(f"expected JSON, got: {error}") from error
    lists = [document.get(key) for key in KEYS] if isinstance(document, dict) else []
    if not any(isinstance(one, dict) for one in lists):
        raise CannotEdit(f"expected servers under {' or '.join(KEYS)}, got none")
    servers = [server for one in lists if isinstance(one, dict) for server in one.items()]
    before = json.dumps(document)
    found = {name: _changed(name, server) for name, server in servers}
    at_address = {name: address for name, address in found.items() if address and not address.startswith(_HERE)}
    if json.dumps(document) == before:
        return text, at_address
    indent = re.search(r'\n([ \t]+)"', text)
    new = json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
    return new, at_address


def _changed(name: str, server: Any) -> str:
    """Put a server behind the proxy if it is a command; otherwise return its address. Raises CannotEdit."""
    parts = server if isinstance(server, dict) else {}
    for key in _ADDRESSES:
        if isinstance(parts.get(key), str):
            return str(parts[key])
    command, arguments = parts.get("command"), parts.get("args", [])
    if not isinstance(command, str) or not isinstance(arguments, list):
        raise CannotEdit(f"{name}: expected a command with args, or an address; got neither")
    if not is_behind(command, arguments):
        parts |= {"command": "haltline", "args": ["mcp-proxy", "--name", name, "--", command, *arguments]}
    return ""


def is_behind(command: str, arguments: list[Any]) -> bool:
    """Return whether a command is haltline's proxy, in any form."""
    return "mcp-proxy" in arguments and ("haltline" in command or any("haltline" in str(one) for one in arguments))
