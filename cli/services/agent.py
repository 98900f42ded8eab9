"""`haltline agent`: the local service. Does not need the processor: it is installed beside the agents."""

import os
import secrets
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from haltline.cli.common import Exit, fail, option_of
from haltline.cli.services.intake import Served, serve_http, with_served


@with_served
def agent(
    *,
    local: Annotated[bool, typer.Option("--local", help="Decide here, without Kafka.")] = False,
    bootstrap: Annotated[str | None, option_of("kafka.bootstrap", metavar="HOST:PORT")] = None,
    prefix: Annotated[str | None, option_of("kafka.prefix", metavar="TEXT")] = None,
    agent_id: Annotated[str | None, option_of("agent.agent_id", metavar="NAME")] = None,
    client_config: Annotated[Path | None, option_of("kafka.client_config", metavar="FILE")] = None,
    http: Annotated[
        int | None,
        typer.Option(
            help="Also serve HTTP on this port of this machine, 0 takes a free one; the file beside the socket has the "
            "address and the key that every request needs.",
            metavar="PORT",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Instead of the socket: serve HTTP for agents of other machines at this address, as `haltline intake` "
            "does. The options from --mode on are for this.",
            metavar="HOST:PORT",
        ),
    ] = None,
    served: Served,
) -> None:
    """Serve the agents of this user on a socket, until SIGTERM or Ctrl-C: hooks, MCP proxies, programs in any language.

    It prints the socket's path. A hook or a proxy with the same settings uses it, and starts one by itself where none
    runs. docs/service.md has the messages.

    Exit codes: 0 after a clean stop; 1: another process serves this socket; 2: the configuration is wrong.

    Example: haltline agent --local

    Example: haltline agent --listen 0.0.0.0:8765 --bootstrap kafka-1:9092 --keys keys.toml --tls-config tls.properties
    """
    values = {
        "HALTLINE_BOOTSTRAP": bootstrap,
        "HALTLINE_PREFIX": prefix,
        "HALTLINE_AGENT_ID": agent_id,
        "HALTLINE_CLIENT_CONFIG": None if client_config is None else str(client_config),
        "HALTLINE_MODE": "local" if local else None,
    }
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        if listen is not None:
            host, colon, port = listen.rpartition(":")
            if not colon or not port.isdecimal():
                fail(f"agent: --listen: expected HOST:PORT, got {listen!r}", Exit.USAGE)
            serve_http("agent", {}, served, host.strip("[]"), int(port))
            return
        if not hasattr(socket, "AF_UNIX"):
            _serve_loopback(served, http or 0)
            return
        from haltline.cli import settings_file
        from haltline.cli.agent.hook_request import place
        from haltline.cli.agent.reaching import settings_of_sessions

        path = place([], os.environ)
        settings_file.apply("agent")
        from haltline.cli.agent.service import run

        settings_of_sessions(os.environ)  # checked at the start
        if not run(Path(path), idle_s=None, http=http, say=lambda text: print(text, flush=True)):
            print(f"haltline agent: {path}: another process serves it", file=sys.stderr)
            raise typer.Exit(1)
    except (ValueError, OSError) as error:
        fail(f"agent: {error}", Exit.USAGE)


def _serve_loopback(served: Served, port: int) -> None:
    """Serve HTTP on this machine alone, where there are no Unix sockets, as on Windows; a file has its key."""
    from haltline.interventions.agent.user_files import replace_file

    key = Path.home() / ".haltline" / "agent.key"
    key.parent.mkdir(mode=0o700, exist_ok=True)
    replace_file(key, (secrets.token_urlsafe(32).encode(),))
    print(f"haltline agent: no Unix sockets here: HTTP with the key in {key}", file=sys.stderr, flush=True)
    serve_http("agent", {}, replace(served, token_file=key), "127.0.0.1", port)
