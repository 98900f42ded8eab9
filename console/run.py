"""Serves the application until SIGTERM or Ctrl-C."""

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import uvicorn
from sqlalchemy import Engine, delete, select
from sqlalchemy.exc import ArgumentError, OperationalError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from haltline.console.access.sign_in_link import LASTS_S, link_of
from haltline.console.app import create_app
from haltline.console.live import Live
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import as_read, reader_of
from haltline.console.read_model.sql import Sql
from haltline.console.read_model.store import empty, open_store, put
from haltline.console.settings import ConsoleSettings
from haltline.streams.audit.engine import QueryFailed
from haltline.streams.audit.reading import TOPICS
from haltline.streams.history.fold import take_in
from haltline.streams.intake.connections import Connection, Connections
from haltline.streams.replay.table_range import TableRange
from haltline.streams.runtime.health import MetricsServer


def bounded(among: Connections) -> type[HttpToolsProtocol]:
    """The class for `uvicorn.Config(http=...)`."""

    class Protocol(_Protocol):
        connections_of_all = among

    return Protocol


class _Protocol(HttpToolsProtocol):
    connections_of_all: Connections
    _connection: Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # like uvicorn's
        super().connection_made(transport)
        self._connection = self.connections_of_all.opened(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._connection.received(len(data))

    def on_headers_complete(self) -> None:
        self._connection.received_headers()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # else the next request has already arrived
            self._connection.waits(idle=True)

    def pause_writing(self) -> None:
        self._connection.full()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._connection.drained()
        super().resume_writing()


def config_of(app: Any, among: Connections) -> dict[str, Any]:
    """The settings of uvicorn."""
    return {
        "app": app,
        "http": bounded(among),
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
    }


_BATCH: Final = 2_000
_SAY_EVERY_S: Final = 2.0


def of_audit(settings: ConsoleSettings) -> TableRange:
    """All present records of the audit table. Raises QueryFailed: there is no table, or no agents' records in it."""
    return TableRange(settings.audit_table or "", settings.topics, storage_options=settings.audit_options)


def take_from(found: TableRange, engine: Engine, *, on_progress: Callable[[int, int], object]) -> None:
    """Read all of it into the read model, each batch with its offset; the feeder continues after them.

    What an interrupted reading has is not read again. `on_progress` is called with the number of records so far and
    that of all. Erased records, and those that were lost before the audit read them, are skipped.
    """
    reader, prefix = reader_of(found.topics), found.topics.prefix
    spans = [span for topic in found.topics.all for span in found.freeze(topic)]
    with engine.connect() as connection:
        reached = {(topic, number): after for topic, number, after in connection.execute(select(tables.offsets))}
    taken, total = 0, sum(span.count for span in spans)
    for span in spans:
        place = (span.topic.removeprefix(prefix), span.partition)
        first = min(max(span.start, reached.get(place, 0)), span.end)
        taken += first - span.start
        records = found.read([replace(span, start=first)])
        while first < span.end:
            part = list(islice(records, _BATCH))
            after = part[-1].offset + 1 if part else span.end
            now_ms = time.time_ns() // 1_000_000
            rows = [row for row in reader.rows(map(as_read, part), now_ms) if row["kind"] != TOPICS]
            with engine.begin() as connection:
                take_in(Sql(connection), rows, prefix)
                put(connection, tables.offsets, [{"topic": place[0], "partition": place[1], "next": after}])
            taken, first = taken + after - first, after
            on_progress(taken, total)


log: Final = logging.getLogger("haltline.console")


_SWITCH_S: Final = 0.0005
"""A tenth of Python's default: the server needs the interpreter lock again after each system call, and waits this
long for it while another thread reads or evaluates a policy."""


def run(
    settings: ConsoleSettings,
    host: str,
    port: int,
    *,
    rebuild: bool,
    metrics_at: tuple[str, int] | None = None,
    token: str | None = None,
) -> int:
    """Run the server. Returns the exit code: 0 after a clean stop, 2 if the database or the address is not available.

    Raises what keeps the read model from being updated, such as TopicRecreated. At `metrics_at`, /metrics is served
    without a key. The link for signing in with `token` is printed.
    """

    def stop() -> None:
        server.should_exit = True

    try:
        engine = open_store(settings.database)
        if rebuild:
            _rebuild(engine, settings)
        engine.dispose()
        listening = socket.create_server((host, port))
        app = create_app(settings, on_failure=stop)
        metrics = None if metrics_at is None else MetricsServer(*metrics_at, app.state.metrics.exposition)
    except (ArgumentError, OperationalError, QueryFailed, ValueError, OSError) as error:
        print(f"haltline: {error}", file=sys.stderr)
        return 2
    if metrics is not None:
        print(f"haltline console: serves /metrics on port {metrics.port}", file=sys.stderr, flush=True)
    address = f"http://{listening.getsockname()[0]}:{listening.getsockname()[1]}"
    print(address, flush=True)
    if token is not None:
        print(f"Sign in, once, within {LASTS_S // 60} minutes: {link_of(address, token)}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        # On either signal the server stops cleanly, and then raises it again for the previous handler.
        signal.signal(number, lambda *_: None)
    sys.setswitchinterval(_SWITCH_S)
    server = _Server(uvicorn.Config(**config_of(app, Connections())), app.state.live)
    try:
        server.run([listening])
    finally:
        if metrics is not None:
            metrics.close()
    if (failure := app.state.context.feeder.failure) is not None:
        raise failure
    return 0


def _rebuild(engine: Engine, settings: ConsoleSettings) -> None:
    """Rebuild the read model, or go on with a rebuilding from the same table that was interrupted.

    Raises QueryFailed before it deletes anything: no such audit table, or no records.
    """
    if settings.audit_table is None:
        empty(engine)
        return
    found, last_s = of_audit(settings), 0.0
    with engine.connect() as connection:
        begun = connection.execute(select(tables.rebuilding.c.source)).scalars().all()
    if begun != [settings.audit_table]:
        empty(engine)
        with engine.begin() as connection:
            put(connection, tables.rebuilding, [{"source": settings.audit_table}])

    def say(taken: int, total: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _SAY_EVERY_S or taken == total:
            last_s = time.monotonic()
            print(f"{taken:,} of {total:,} records of {found.name} are read", flush=True)

    take_from(found, engine, on_progress=say)
    missing = found.missing([span for topic in found.topics.all for span in found.freeze(topic)])
    print(f"{f'not there: {missing}; ' if any(missing) else ''}the topics follow", flush=True)
    with engine.begin() as connection:
        connection.execute(delete(tables.rebuilding))


class _Server(uvicorn.Server):
    """A server that ends the pages' event streams before it waits for the running requests."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._live.close()
        await super().shutdown(sockets)
