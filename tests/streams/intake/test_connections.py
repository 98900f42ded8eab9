"""Connections to a real server on loopback: their number, and when they are closed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from haltline.streams.intake.connections import MAX_HEADER_BYTES, Bounded, Connection, Connections

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Client]]


class Echo(asyncio.Protocol):
    """Reads lines as requests: `ask` is answered at once, `big` with more than fits into any buffer."""

    def __init__(self, among: Connections) -> None:
        self._among = among

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.text = b""

    @property
    def connection(self) -> Connection:
        return self._among.open[self.transport]

    def data_received(self, data: bytes) -> None:
        self.text += data
        if not self.text.endswith(b"\n"):
            self.connection.received(len(data))
            return
        self.connection.received_headers()
        if self.text == b"hold\n":
            self.transport.write(b"held\n")
            return
        self.transport.write(b"x" * 64 * 1024 * 1024 if self.text == b"big\n" else b"answer\n")
        self.text = b""
        self.connection.waits(idle=True)


@asynccontextmanager
async def server(among: Connections) -> AsyncIterator[Connect]:
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Bounded(Echo(among), among), "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    writers = []

    async def connect() -> Client:
        client = await asyncio.open_connection("127.0.0.1", port)
        writers.append(client[1])
        return client

    try:
        yield connect
    finally:
        for writer in writers:
            writer.close()
        listening.close()
        await listening.wait_closed()


async def ended(client: Client) -> bool:
    try:
        return not await client[0].read()
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    ("bounds", "data"),
    [
        pytest.param({"headers_s": 0.05}, b"", id="that says nothing"),
        pytest.param({"headers_s": 0.05}, b"as", id="that says half of what it wants"),
        pytest.param({}, b"a" * (MAX_HEADER_BYTES + 1), id="whose headers have no end"),
    ],
)
def test_a_connection_is_ended(bounds: dict[str, float], data: bytes) -> None:
    async def run() -> None:
        among = Connections(**bounds)  # type: ignore[arg-type]  # of these names
        async with server(among) as connect:
            client = await connect()
            client[1].write(data)
            assert await asyncio.wait_for(ended(client), 30)
            assert not among.open
            assert not among.waiting

    asyncio.run(run())


def test_a_client_that_does_not_read_is_ended() -> None:
    async def run() -> None:
        among = Connections(read_s=0.05)
        async with server(among) as connect:
            _, writer = await connect()
            writer.write(b"big\n")
            async with asyncio.timeout(30):
                while not among.open:
                    await asyncio.sleep(0)
                while among.open:
                    await asyncio.sleep(0.01)

    asyncio.run(run())


def test_of_too_many_the_one_that_waits_for_the_longest_goes_first_and_where_none_waits_the_new_one() -> None:
    async def run() -> None:
        async with server(Connections(most=2)) as connect:
            holding, silent = await connect(), await connect()
            holding[1].write(b"hold\n")
            assert await holding[0].readline() == b"held\n"
            reader, writer = await connect()
            writer.write(b"ask\n")
            assert await reader.readline() == b"answer\n"
            assert await asyncio.wait_for(ended(silent), 30)
            writer.write(b"hold\n")
            assert await reader.readline() == b"held\n"
            assert await asyncio.wait_for(ended(await connect()), 30)

    asyncio.run(run())
