"""`haltline mcp-proxy`: a proxy for an MCP server. Does not need the processor: it is installed beside the agent."""

import os
import shlex
import sys
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from haltline.cli.cluster import with_guard
from haltline.cli.common import Exit, fail

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@with_guard(of_one_session=True)
def mcp_proxy(
    server: Annotated[
        list[str] | None, typer.Argument(help="The server's command, after --.", metavar="-- SERVER...")
    ] = None,
    *,
    given: dict[str, Any],
    name: Annotated[
        str, typer.Option(help="Name of the server: actions are then mcp__TEXT__tool.", metavar="TEXT")
    ] = "",
    url: Annotated[
        str | None,
        typer.Option(help="Instead of SERVER: its address, such as https://mcp.example.org/mcp.", metavar="URL"),
    ] = None,
    host: Annotated[str, typer.Option(help="With --url: address to listen on.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --url: port to listen on; 0 takes a free one.")] = 8766,
    header_file: Annotated[
        Path | None,
        typer.Option(help="With --url: headers, one `name: value` a line, such as Authorization.", metavar="FILE"),
    ] = None,
    max_sessions: Annotated[int, typer.Option(help="With --url: most sessions at a time.")] = 200,
) -> None:
    """Run an MCP server, and guard the calls of its tools: put this command where the server's was.

    Or proxy one over HTTP (streamable HTTP), and give clients the address that is printed; each session of MCP is then
    a session of its own, unless --session is given. A refused call of a tool is answered with an error that the model
    reads, and never reaches the server.

    Exit codes: the server's own; with --url 0 after a clean stop; 2: the command or its configuration is wrong.

    Example: haltline mcp-proxy --bootstrap kafka-1:9092 --name files -- npx server-filesystem /srv
    """
    if bool(server) == (url is not None):
        got = "both" if server else "none"
        fail(f"mcp-proxy: expected the command of a server after --, or --url; got {got}", Exit.USAGE)
    from haltline.cli.agent.reaching import Reach, options_of, session_in, settings_of_sessions
    from haltline.interventions.agent.integrations.mcp_proxy import Proxy
    from haltline.interventions.agent.service.client import ServiceSession
    from haltline.interventions.agent.settings import read_named_values

    actions = f"mcp__{name}__" if name else ""
    one_session = "session_id" in given or "HALTLINE_SESSION_ID" in os.environ
    try:
        reach = Reach(options_of(given), os.environ)
        settings = settings_of_sessions(reach.environ)  # checked at the start
        own = {"session_id": uuid.uuid4().hex} | session_in(os.environ)
        own |= {name: given[name] for name in ("agent_id", "session_id") if name in given}

        def session_of(session_id: str | None) -> ServiceSession:
            begins = own | ({"session_id": session_id} if session_id else {})
            return ServiceSession(reach, begins, closed_from=settings.fail_closed_from)

        if server:
            raise typer.Exit(Proxy(session_of(None), prefix=actions).run(server, sys.stdin.buffer, sys.stdout.buffer))
        from haltline.interventions.agent.integrations.mcp_http import HttpProxy
        from haltline.streams.intake.server import serve

        proxy = HttpProxy(
            session_of,
            url or "",
            prefix=actions,
            one_session=one_session,
            headers={} if header_file is None else read_named_values(header_file, ":"),
            hosts=_LOOPBACK if host in _LOOPBACK else _LOOPBACK | {host},
            max_sessions=max_sessions,
        )
        # Since 2026-07-28 a client cancels a request by closing its connection.
        serve(proxy.app(), host, port, path=proxy.path, cancels=True)
    except ValueError as error:
        fail(f"mcp-proxy: {error}", Exit.USAGE)
    except OSError as error:
        fail(f"mcp-proxy: {shlex.join(server or ()) or url}: {error}", Exit.USAGE)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("mcp-proxy", context_settings={"allow_interspersed_args": False})(mcp_proxy)
