"""The connections of one server, with limits on their number and on the time for requests and answers.

Neither uvicorn nor aiohttp ends a client that sends its headers byte by byte, or does not read its answer. If there are
too many connections, those without a complete request are ended first: a client that sends one at once is answered. For
the server's event loop only.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

MAX: Final = 512
"""The most simultaneous connections; below the limit of open files (1024) that most systems have."""
HEADERS_WITHIN_S: Final = 10.0
"""The time limit of a request's headers, from the connection's start, or from the first byte after an answer."""
IDLE_S: Final = 75.0
"""The idle time limit after an answer."""
READ_WITHIN_S: Final = 30.0
"""The time limit of a client that does not read its answer."""
MAX_HEADER_BYTES: Final = 64 * 1024


@dataclass(eq=False, kw_only=True)
class Connections:
    """The connections of one server."""

    most: int = MAX
    headers_s: float = HEADERS_WITHIN_S
    idle_s: float = IDLE_S
    read_s: float = READ_WITHIN_S
    open: dict[asyncio.BaseTransport, "Connection"] = field(init=False, default_factory=dict)
    waiting: OrderedDict["Connection", None] = field(init=False, default_factory=OrderedDict)
    """Connections without a complete request, the longest waiting first."""

    def opened(self, transport: asyncio.Transport) -> "Connection":
        """Return a new connection.

        If there are too many, end the one that has been silent for longest, else this one.
        """
        connection = Connection(self, transport)
        if len(self.open) >= self.most:
            next(iter(self.waiting), connection).end()
        if not connection.ended:
            self.open[transport] = connection
            connection.waits()
        return connection


class Connection:
    """One connection."""

    def __init__(self, among: Connections, transport: asyncio.Transport) -> None:
        self._among = among
        self._transport = transport
        self._until: asyncio.TimerHandle | None = None
        self._unread_until: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._idle = False
        self.ended = False

    def waits(self, *, idle: bool = False) -> None:
        """Start waiting for a request: at the start, and after each answer."""
        if self.ended:
            return
        self.received_headers()
        self._header_bytes, self._idle = 0, idle
        self._among.waiting[self] = None
        self._end_in(self._among.idle_s if idle else self._among.headers_s)

    def begins(self) -> None:
        """Note received bytes, which may start a request."""
        if self._idle and self in self._among.waiting:
            self._idle = False
            self._end_in(self._among.headers_s)

    def received(self, count: int) -> None:
        """Note this many received bytes, read by the server; the length of headers is limited."""
        self.begins()
        if self in self._among.waiting:
            self._header_bytes += count
            if self._header_bytes > MAX_HEADER_BYTES:
                self.end()

    def received_headers(self) -> None:
        """Note the headers of a request."""
        self._among.waiting.pop(self, None)
        if self._until is not None:
            self._until.cancel()
            self._until = None

    def full(self) -> None:
        """Note that the client does not read."""
        if self._unread_until is None:
            self._unread_until = asyncio.get_running_loop().call_later(self._among.read_s, self.end)

    def drained(self) -> None:
        """Note that the client reads again."""
        if self._unread_until is not None:
            self._unread_until.cancel()
            self._unread_until = None

    def lost(self) -> None:
        """Note the end of the connection."""
        self.ended = True
        self.received_headers()
        self.drained()
        self._among.open.pop(self._transport, None)

    def end(self) -> None:
        """Close it, discarding unsent data."""
        self.lost()
        self._transport.abort()

    def _end_in(self, seconds: float) -> None:
        if self._until is not None:
            self._until.cancel()
        self._until = asyncio.get_running_loop().call_later(seconds, self.end)


class Bounded(asyncio.Protocol):
    """A server's own protocol with limited connections; its server calls `received_headers` and `waits`."""

    def __init__(self, inner: asyncio.Protocol, among: Connections) -> None:
        self._inner = inner
        self._among = among
        self._connection: Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._inner.connection_made(transport)
        self._connection = self._among.opened(transport)  # type: ignore[arg-type]  # of a stream, it is a Transport

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._connection.begins()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._connection.full()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self._connection.drained()
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection."""
        self._connection.lost()
        self._inner.connection_lost(exc)
