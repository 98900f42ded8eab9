"""`haltline mcp-proxy`: a proxy for an MCP server. Does not need the processor: it is installed beside the agent."""

import argparse
import os
import shlex
import sys
import uuid
from pathlib import Path
from typing import Any

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OF_HTTP = ("url", "host", "port", "header_file", "max_sessions")


def main(arguments: list[str]) -> int:
    """Run the command with the arguments after `mcp-proxy`. Returns the exit code: the server's, 0 after HTTP, or 2."""
    options, command = _parsed(arguments)
    from haltline.interventions.agent.guard import Guard
    from haltline.interventions.agent.integrations.mcp_proxy import Proxy
    from haltline.interventions.agent.settings import GuardSettings

    http = {name: options.pop(name) for name in _OF_HTTP}
    prefix = f"mcp__{name}__" if (name := options.pop("name")) else ""
    given = {name: value for name, value in options.items() if value is not None}
    one_session = "session_id" in given or "HALTLINE_SESSION_ID" in os.environ
    defaults = {"HALTLINE_MODE": "blocking", "HALTLINE_SESSION_ID": uuid.uuid4().hex}
    try:
        settings = GuardSettings.from_env(defaults | dict(os.environ), **given)
        if http["url"] is None:
            return Proxy(Guard(settings), prefix=prefix).run(command, sys.stdin.buffer, sys.stdout.buffer)
        from haltline.interventions.agent.integrations.mcp_http import HttpProxy
        from haltline.streams.intake.server import serve

        host = http["host"]
        proxy = HttpProxy(
            settings,
            http["url"],
            prefix=prefix,
            one_session=one_session,
            headers=_headers(http["header_file"]),
            hosts=_LOOPBACK if host in _LOOPBACK else _LOOPBACK | {host},
            max_sessions=http["max_sessions"],
        )
        # Since 2026-07-28 a client cancels a request by closing its connection.
        serve(proxy.app(), host, http["port"], path=proxy.path, cancels=True)
    except ModuleNotFoundError as missing:
        if missing.name != "aiohttp":
            raise
        print("haltline: mcp-proxy: --url needs aiohttp: pip install 'haltline[mcp]'", file=sys.stderr)
    except ValueError as error:
        print(f"haltline: mcp-proxy: {error}", file=sys.stderr)
    except OSError as error:
        print(f"haltline: mcp-proxy: {shlex.join(command) or http['url']}: {error}", file=sys.stderr)
    else:
        return 0
    return 2


def _parsed(arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    parser = argparse.ArgumentParser(
        prog="haltline mcp-proxy",
        usage="haltline mcp-proxy [options] -- SERVER...\n       haltline mcp-proxy [options] --url URL",
        description="Run an MCP server (stdio) and guard its tools: put this command where the server's was. Or proxy"
        " one over HTTP (streamable HTTP), and give clients the address that is printed. A refused call"
        " of a tool is answered with an error that the model reads, and never reaches the server.",
        epilog="Exit codes: the server's own; with --url 0 after a clean stop; 2: the command or its configuration is "
        "wrong. Example: haltline mcp-proxy --bootstrap kafka-1:9092 --name files -- npx server-filesystem /srv",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka's address; or HALTLINE_BOOTSTRAP")
    parser.add_argument(
        "--prefix", dest="topic_prefix", metavar="TEXT", help="prefix of the topics; or HALTLINE_PREFIX"
    )
    parser.add_argument("--agent-id", metavar="NAME", help="the agent's id; or HALTLINE_AGENT_ID")
    parser.add_argument("--session", dest="session_id", metavar="ID", help="session id; or "
                        "HALTLINE_SESSION_ID; default: a new one, over HTTP one for each session of MCP")  # fmt: skip
    parser.add_argument(
        "--name", metavar="TEXT", default="", help="name of the server: actions are then mcp__TEXT__tool"
    )
    http = parser.add_argument_group("with --url")
    http.add_argument("--url", help="address of the server, such as https://mcp.example.org/mcp")
    http.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (%(default)s)")
    http.add_argument("--port", type=int, default=8766, help="port to listen on; 0 takes a free one (%(default)s)")
    http.add_argument("--header-file", type=Path, metavar="FILE",
                      help="headers for the server, one `name: value` a line, such as its Authorization")  # fmt: skip
    http.add_argument("--max-sessions", type=int, default=200, help="most sessions at a time (%(default)s)")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = vars(parser.parse_args(arguments[:end])), arguments[end + 1 :]
    if options["url"] is None and not command:
        parser.error("expected the command of a server after --, or --url; got none")
    if options["url"] is not None and command:
        parser.error("expected the command of a server after --, or --url; got both")
    return options, command


def _headers(file: Path | None) -> dict[str, str]:
    """The headers in a file. Raises ValueError for an invalid line."""
    headers: dict[str, str] = {}
    for number, line in enumerate([] if file is None else file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"{file}:{number}: expected `name: value`, got a line without")
        headers[name.strip()] = value.strip()
    return headers
