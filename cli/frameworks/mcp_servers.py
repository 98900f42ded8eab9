"""Puts the proxy before each server in a host's JSON file of MCP servers, such as .mcp.json."""

import json
import re
import shlex
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from haltline.cli.frameworks.source import CannotEdit

KEYS: Final = ("mcpServers", "servers")
"""The keys of the servers: Claude Code, Claude Desktop and Cursor; VS Code."""
_ADDRESSES: Final = ("url", "httpUrl", "serverUrl")
"""The keys of a server's address: most hosts; Gemini CLI; Windsurf."""
_STREAMABLE: Final = frozenset({"", "http", "streamable-http", "streamableHttp"})
FIRST_PORT: Final = 8766
"""The default port of `haltline mcp-proxy --url`."""
_SPACE: Final = " \t\r\n"


class AtAddress(NamedTuple):
    """A server at an address: the proxy's command and address, and why the file is left alone (empty: it is not)."""

    name: str
    command: str
    member: str
    """The address of the proxy as a member of the server's object."""
    why: str


class Servers(NamedTuple):
    """A changed file."""

    text: str
    at_address: list[AtAddress]
    """The servers at an address that are not behind the proxy yet."""


class _Place(NamedTuple):
    value: Any
    begin: int
    end: int
    """The offset after the value."""


def behind_proxy(text: str, ports: Iterator[int]) -> Servers:
    """The file with `haltline mcp-proxy` before each server; all else is unchanged. Raises CannotEdit.

    A command is run by the proxy. An address becomes the proxy's, at the next of `ports`.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CannotEdit(f"expected JSON, got: {error}") from error
    servers = [one for key, one in _members(text, 0) if key in KEYS and isinstance(one.value, dict)]
    if not servers:
        raise CannotEdit(f"expected servers under {' or '.join(KEYS)}, got none")
    edits: list[tuple[int, int, str]] = []
    at_address: list[AtAddress] = []
    for name, server in (member for one in servers for member in _members(text, one.begin)):
        parts = dict(_members(text, server.begin)) if isinstance(server.value, dict) else {}
        command, arguments = parts.get("command"), parts.get("args")
        if address := next(((key, parts[key]) for key in _ADDRESSES if _is_text(parts.get(key))), None):
            key, place = address
            if is_proxy(place.value):
                continue
            one = _at_address(name, key, server.value, next(ports))
            at_address.append(one)
            if not one.why:
                edits.append((place.begin, place.end, one.member.partition(": ")[2]))
        elif command is None or not _is_text(command) or not (arguments is None or isinstance(arguments.value, list)):
            raise CannotEdit(f"{name}: expected a command with args, or an address; got neither")
        elif not is_behind(command.value, arguments.value if arguments else []):
            words = ", ".join(json.dumps(one) for one in ("mcp-proxy", "--name", name, "--"))
            words += f", {text[command.begin : command.end]}"
            edits.append((command.begin, command.end, '"haltline"' + ("" if arguments else f', "args": [{words}]')))
            if arguments:
                begin = arguments.begin + 1
                edits.append((begin, begin, f"{words}, " if arguments.value else words))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    json.loads(text)
    return Servers(text, at_address)


def is_behind(command: str, arguments: list[Any]) -> bool:
    """Return whether a command is haltline's proxy, in any form."""
    return "mcp-proxy" in arguments and ("haltline" in command or any("haltline" in str(one) for one in arguments))


def is_proxy(url: str) -> bool:
    """Return whether init wrote this address. The proxy ignores the query, which is the mark."""
    return re.fullmatch(r"http://127\.0\.0\.1:\d+/[^?]*\?haltline=[^&]*", url) is not None


def _at_address(name: str, key: str, server: dict[str, Any], port: int) -> AtAddress:
    url = server[key]
    words = ["haltline", "mcp-proxy", "--name", name, "--url", url, "--port", str(port)]
    path = quote(urlsplit(url).path, safe="/%:@!$&'()*+,;=~") or "/"
    own = f"http://127.0.0.1:{port}{path}?haltline={quote(name, safe='')}"
    return AtAddress(name, shlex.join(words), f"{json.dumps(key)}: {json.dumps(own)}", _obstacle(url, server))


def _obstacle(url: str, server: dict[str, Any]) -> str:
    """Why the proxy cannot stand before an address without knowing more; empty: it can."""
    if re.fullmatch(r"https?://[^\s/?#$]+[^\s$]*", url) is None:
        return f"expected http://... or https://... without variables, got {url}: give the proxy the whole address"
    if server.get("type", "") not in _STREAMABLE or urlsplit(url).path.rstrip("/").endswith("/sse"):
        return "expected streamable HTTP, got another transport, which the proxy lacks: use the server's address of it"
    if not server.get("headers") and not _is_here(url):
        return (
            "expected headers with a token, got none. The proxy is not where a log-in by OAuth leads: "
            "if the server wants one, give it a token"
        )
    return ""


def _is_here(url: str) -> bool:
    """Whether the server is on this machine, where it has no log-in."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_text(place: _Place | None) -> bool:
    return place is not None and isinstance(place.value, str)


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
