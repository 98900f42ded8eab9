"""`haltline mcp-proxy`: in front of an MCP server. Needs nothing of the processor: it is installed beside the agent."""

import argparse
import os
import shlex
import sys
import uuid

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.mcp_proxy import Proxy
from haltline.interventions.agent.settings import GuardSettings


def main(arguments: list[str]) -> int:
    """Runs the command with what follows `mcp-proxy`. Returns the exit code: the server's, or 2."""
    parser = argparse.ArgumentParser(
        prog="haltline mcp-proxy",
        usage="haltline mcp-proxy [options] -- SERVER...",
        description="Run an MCP server (stdio) behind a guard: put this command where the server's was. A refused call"
        " of a tool is answered with an error that the model reads, and never reaches the server.",
        epilog="Exit codes: the server's own; 2: the command or its configuration is wrong. "
        "Example: haltline mcp-proxy --bootstrap kafka-1:9092 --name files -- npx server-filesystem /srv",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka's address; or HALTLINE_BOOTSTRAP")
    parser.add_argument("--prefix", dest="topic_prefix", metavar="TEXT", help="of the topics; or HALTLINE_PREFIX")
    parser.add_argument("--agent-id", metavar="NAME", help="or HALTLINE_AGENT_ID")
    parser.add_argument("--session", dest="session_id", metavar="ID", help="or HALTLINE_SESSION_ID; else a new one")
    parser.add_argument("--name", metavar="TEXT", default="", help="of the server: actions are then mcp__TEXT__tool")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:end]), arguments[end + 1 :]
    if not command:
        parser.error("wanted the command of a server after --, came none")
    said = {name: value for name, value in vars(options).items() if value is not None and name != "name"}
    defaults = {"HALTLINE_MODE": "blocking", "HALTLINE_SESSION_ID": uuid.uuid4().hex}
    try:
        guard = Guard(GuardSettings.from_env(defaults | dict(os.environ), **said))
        proxy = Proxy(guard, prefix=f"mcp__{options.name}__" if options.name else "")
        return proxy.run(command, sys.stdin.buffer, sys.stdout.buffer)
    except ValueError as error:
        print(f"haltline: mcp-proxy: {error}", file=sys.stderr)
    except OSError as error:
        print(f"haltline: mcp-proxy: {shlex.join(command)}: {error}", file=sys.stderr)
    return 2
