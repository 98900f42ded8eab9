"""A server of an aiohttp application on a port, until SIGTERM or Ctrl-C."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from haltline.streams.intake.connections import Bounded, Connections
from haltline.streams.intake.tls import HANDSHAKE_WITHIN_S, ServerTls

_LINGERS_S: Final = 2.0
"""How long the rest of a refused body is read, so that its client reads the answer. A stop waits for it."""


def serve(
    app: web.Application,
    host: str,
    port: int,
    *,
    path: str = "",
    cancels: bool = False,
    tls: ServerTls | None = None,
    until_stdin_ends: bool = False,
) -> None:
    """Serve, and print the address once it accepts requests. Raises OSError when the port is not available.

    `path` is appended to the printed address. `cancels`: closing a connection cancels its request. `until_stdin_ends`:
    the end of standard input stops it as well.
    """
    asyncio.run(_serve(app, host, port, path, cancels=cancels, tls=tls, until_stdin_ends=until_stdin_ends))


@contextlib.asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    connections: Connections,
    *,
    cancels: bool = False,
    tls: ServerTls | None = None,
) -> AsyncIterator[str]:
    """Serve the application in a block, which gets the address. Raises OSError when the port is not available."""
    app.middlewares.insert(0, _tracking(connections))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=cancels, lingering_time=_LINGERS_S)
    await runner.setup()
    server = None
    try:
        server = await asyncio.get_running_loop().create_server(
            lambda: _bounded(runner, connections),
            host,
            port,
            ssl=None if tls is None else tls.context(),
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_WITHIN_S,
        )
        address = server.sockets[0].getsockname()
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}"
    finally:
        if server is not None:
            server.close()
        await runner.cleanup()


async def _serve(
    app: web.Application,
    host: str,
    port: int,
    path: str,
    *,
    cancels: bool,
    tls: ServerTls | None,
    until_stdin_ends: bool,
) -> None:
    async with listening(app, host, port, Connections(), cancels=cancels, tls=tls) as address:
        print(f"{address}{path}", flush=True)
        ended = asyncio.Event()
        with contextlib.suppress(NotImplementedError):  # on Windows, where these end the process
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, ended.set)
        if until_stdin_ends:
            watch = (asyncio.get_running_loop(), ended)
            threading.Thread(target=_set_when_stdin_ends, args=watch, name="haltline-stdin", daemon=True).start()
        await ended.wait()


def _set_when_stdin_ends(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(
            sys.stdin.fileno(), 4096
        ):  # unbuffered: a thread in a buffered read delays the interpreter's exit
            pass
    with contextlib.suppress(RuntimeError):  # it has already stopped
        loop.call_soon_threadsafe(ended.set)


def _bounded(runner: web.AppRunner, connections: Connections) -> Bounded:
    if runner.server is None:
        raise RuntimeError("the server: expected one that is set up, got none")
    return Bounded(runner.server(), connections)


def _tracking(connections: Connections) -> Middleware:
    """Report when a request is answered, and when its connection waits for the next one."""

    @web.middleware
    async def track(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = None if request.transport is None else connections.open.get(request.transport)
        if connection is None:
            return await handler(request)
        connection.received_headers()
        try:
            return await handler(request)
        finally:
            connection.waits(idle=True)

    return track
