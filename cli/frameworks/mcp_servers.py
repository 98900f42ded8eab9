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


class AtAddress(NamedTuple):
    """A server at an address: the proxy's command and address, and why the file is left alone (empty: it is not)."""

    name: str
    command: str
    key: str
    """The key of the server's address."""
    url: str
    """The address of the proxy."""
    why: str

    @property
    def member(self) -> str:
        """The address of the proxy as a member of the server's object."""
        return f"{json.dumps(self.key)}: {json.dumps(self.url)}"


class Servers(NamedTuple):
    """A changed file."""

    text: str
    at_address: list[AtAddress]
    """The servers at an address that are not behind the proxy yet."""


def behind_proxy(text: str, ports: Iterator[int]) -> Servers:
    """The file with `haltline mcp-proxy` before each server, indented as before. Raises CannotEdit.

    A command is run by the proxy. An address becomes the proxy's, at the next of `ports`.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CannotEdit(f"expected JSON, got: {error}") from error
    lists = [document.get(key) for key in KEYS] if isinstance(document, dict) else []
    servers = [server for one in lists if isinstance(one, dict) for server in one.items()]
    if not any(isinstance(one, dict) for one in lists):
        raise CannotEdit(f"expected servers under {' or '.join(KEYS)}, got none")
    before = json.dumps(document)
    at_address = [found for name, server in servers if (found := _changed(name, server, ports)) is not None]
    if json.dumps(document) == before:
        return Servers(text, at_address)
    indent = re.search(r'\n([ \t]+)"', text)
    return Servers(json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n", at_address)


def _changed(name: str, server: Any, ports: Iterator[int]) -> AtAddress | None:
    """Put a server behind the proxy; for one at an address that is not there yet, how. Raises CannotEdit."""
    parts = server if isinstance(server, dict) else {}
    key = next((key for key in _ADDRESSES if isinstance(parts.get(key), str)), None)
    if key is not None:
        if is_proxy(parts[key]):
            return None
        one = _at_address(name, key, parts, next(ports))
        parts[key] = parts[key] if one.why else one.url
        return one
    command, arguments = parts.get("command"), parts.get("args", [])
    if not isinstance(command, str) or not isinstance(arguments, list):
        raise CannotEdit(f"{name}: expected a command with args, or an address; got neither")
    if not is_behind(command, arguments):
        parts |= {"command": "haltline", "args": ["mcp-proxy", "--name", name, "--", command, *arguments]}
    return None


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
    return AtAddress(name, shlex.join(words), key, own, _obstacle(url, server))


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
