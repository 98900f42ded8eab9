"""uvicorn's protocol with a bounded number of connections and time limits on them."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from haltline.streams.intake.connections import Connection, Connections


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
