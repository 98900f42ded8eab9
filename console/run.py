"""Serves the application until SIGTERM or Ctrl-C."""

import logging
import signal
import socket
import sys
from typing import Final

import uvicorn
from sqlalchemy import Engine
from sqlalchemy.exc import ArgumentError, OperationalError

from haltline.console.app import create_app
from haltline.console.live import Live
from haltline.console.rebuilding import of_audit, take_from
from haltline.console.settings import ConsoleSettings
from haltline.console.store import empty, open_store
from haltline.streams.audit.engine import QueryFailed

log: Final = logging.getLogger("haltline.console")


def run(settings: ConsoleSettings, host: str, port: int, *, rebuild: bool) -> int:
    """Returns the exit code: 0 after a clean stop, 2 for a database or an address that cannot be had."""
    try:
        engine = open_store(settings.database)
        if rebuild:
            _make_anew(engine, settings)
        engine.dispose()
        listening = socket.create_server((host, port))
    except (ArgumentError, OperationalError, QueryFailed, ValueError, OSError) as error:
        print(f"haltline: {error}", file=sys.stderr)
        return 2
    print(f"http://{listening.getsockname()[0]}:{listening.getsockname()[1]}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        # The server ends in order by either, and then raises it again for whoever held it before.
        signal.signal(number, lambda *_: None)
    app = create_app(settings)
    _Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False), app.state.live).run(
        [listening]
    )
    return 0


def _make_anew(engine: Engine, settings: ConsoleSettings) -> None:
    """Raises QueryFailed, before anything is emptied: there is no such audit table, or nothing in it."""
    found = None if settings.audit_table is None else of_audit(settings)
    empty(engine)
    if found is not None:
        taken = take_from(found, engine, told=lambda count: log.info("%d records of the audit table", count))
        print(f"{taken} records of {found.name} are taken in; the topics come next", flush=True)


class _Server(uvicorn.Server):
    """Ends the streams that pages listen to before it waits for every request to end."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._live.close()
        await super().shutdown(sockets)
