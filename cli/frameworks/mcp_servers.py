"""Puts the proxy before each command in a host's JSON file of MCP servers, such as .mcp.json."""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from haltline.cli.frameworks.source import CannotEdit

KEYS: Final = ("mcpServers", "servers")
"""The keys of the servers: Claude Code, Claude Desktop and Cursor; VS Code."""
_SPACE: Final = " \t\r\n"


class _Place(NamedTuple):
    value: Any
    begin: int
    end: int
    """The offset after the value."""


def behind_proxy(text: str) -> str:
    """The file with `haltline mcp-proxy` before each command; all else is unchanged. Raises CannotEdit."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CannotEdit(f"expected JSON, got: {error}") from error
    servers = [one for key, one in _members(text, 0) if key in KEYS and isinstance(one.value, dict)]
    edits: list[tuple[int, int, str]] = []
    addresses = []
    for name, server in (member for one in servers for member in _members(text, one.begin)):
        parts = dict(_members(text, server.begin)) if isinstance(server.value, dict) else {}
        command, arguments = parts.get("command"), parts.get("args")
        if (
            command is None
            or not isinstance(command.value, str)
            or not isinstance([] if arguments is None else arguments.value, list)
        ):
            addresses.append(name)
        elif not is_behind(command.value, arguments.value if arguments else []):
            words = ", ".join(json.dumps(one) for one in ("mcp-proxy", "--name", name, "--"))
            words += f", {text[command.begin : command.end]}"
            edits.append((command.begin, command.end, '"haltline"' + ("" if arguments else f', "args": [{words}]')))
            if arguments:
                begin = arguments.begin + 1
                edits.append((begin, begin, f"{words}, " if arguments.value else words))
    if addresses:
        raise CannotEdit(f"{addresses[0]}: expected a command with args; before an address: haltline mcp-proxy --url")
    if not servers:
        raise CannotEdit(f"expected servers under {' or '.join(KEYS)}, got none")
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    json.loads(text)
    return text


def is_behind(command: str, arguments: list[Any]) -> bool:
    """Return whether a command is haltline's proxy, in any form."""
    return "mcp-proxy" in arguments and ("haltline" in command or any("haltline" in str(one) for one in arguments))


def _members(text: str, at: int) -> Iterator[tuple[str, _Place]]:
    """Each name in the object at an offset, with its value and place; nothing if it is not an object."""
    decoder = json.JSONDecoder()
    at = _after(text, at, "")
    if text[at] != "{":
        return
    at = _after(text, at + 1, "")
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        begin = _after(text, at, ":")
        value, end = decoder.raw_decode(text, begin)
        yield name, _Place(value, begin, end)
        at = _after(text, end, ",")


def _after(text: str, at: int, sign: str) -> int:
    """The offset of the next token, after at most one such sign."""
    for skipped in (_SPACE, sign, _SPACE):
        while at < len(text) and text[at] in skipped and skipped:
            at += 1
    return at
