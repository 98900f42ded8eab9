"""One tenant's hostile requests, over real sockets to the real server, while another one's are answered."""

import asyncio
import contextlib
import gzip
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest

from haltline.interventions.agent.service.problems import Busy
from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake import requests
from haltline.streams.intake.app import Intake
from haltline.streams.intake.connections import Connections
from haltline.streams.intake.keys import Key, May, Scope, digest_of
from haltline.streams.intake.server import listening
from haltline.streams.intake.shares import Room
from tests.builders import cases

SCOPES = {
    "acme": Scope(sha256=digest_of("key-of-acme"), agents=("acme-*",), may=tuple(May)),
    "umbrella": Scope(sha256=digest_of("key-of-umbrella"), agents=("umbrella-*",)),
}
SHARE = 8
"""Requests that a key alone has of sixteen."""
ENDED_S = 30.0
Talk = Callable[["Server"], Awaitable[Any]]


class Server:
    """An intake on a port."""

    def __init__(self, port: int, intake: Intake) -> None:
        self.port = port
        self.intake = intake
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def begun(self, count: int, sent: bytes) -> list[asyncio.StreamReader]:
        return [(await self.open(sent))[0] for _ in range(count)]

    async def ask(self, key: str, path: str, fields: Any, *headers: str) -> tuple[int, Any]:
        body = orjson.dumps(fields)
        return await answer((await self.open(head(key, path, f"Content-Length: {len(body)}", *headers) + body))[0])

    async def is_served(self) -> bool:
        """Whether the other tenant is answered."""
        return (await self.ask("umbrella", "/v1/verdict", call("umbrella")))[0] == 200

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def head(key: str, path: str = "/v1/verdict", *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer key-of-{key}"]
    return "\r\n".join([*lines, "Content-Type: application/json", *headers, "", ""]).encode()


def call(tenant: str, **changes: Any) -> dict[str, Any]:
    return {"session_id": f"{tenant}-1", "agent_id": f"{tenant}-a", "action": "ls", "args": {}} | changes


async def answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    async with asyncio.timeout(ENDED_S):
        first, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        lengths = [int(line.partition(":")[2]) for line in headers if line.lower().startswith("content-length:")]
        return int(first.split()[1]), orjson.loads(await reader.readexactly(lengths[0]))


def served(talk: Talk, *, headers_s: float = 10.0, read_s: float = 30.0, **options: Any) -> Any:
    @contextlib.asynccontextmanager
    async def server() -> AsyncIterator[Server]:
        intake = Intake(GuardSettings(mode="local"), keys=SCOPES, **options)
        connections = Connections(most=4 * SHARE, headers_s=headers_s, read_s=read_s)
        async with listening(intake.app(), "127.0.0.1", 0, connections) as address:
            one = Server(int(address.rpartition(":")[2]), intake)
            try:
                yield one
            finally:
                one.close()

    async def run() -> Any:
        async with server() as one:
            return await talk(one)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are reached at once."""
    monkeypatch.setattr(requests, "MAX_AT_ONCE", 2 * SHARE)
    monkeypatch.setattr(requests, "WITHIN_S", 2.0)


PACKED = "Content-Encoding: gzip"
BODIES: dict[str, bytes] = {
    "a silent body in chunks": head("acme", "/v1/turn", "Transfer-Encoding: chunked"),
    "half of what is packed": head("acme", "/v1/events", PACKED, "Content-Length: 99999")
    + gzip.compress(os.urandom(99_999))[:50_000],
}


@cases("sent", BODIES)
def test_bodies_that_do_not_end_take_the_room_of_their_key_and_have_a_deadline(sent: bytes) -> None:
    async def talk(server: Server) -> None:
        silent = await server.begun(SHARE, sent)
        over = await answer((await server.open(sent))[0])
        assert over == (
            503,
            {"errors": ["expected key acme to have requests within its share of the intake, got more"]},
        )
        assert await server.is_served()
        assert not any(reader._buffer for reader in silent), "while nothing has ended"  # type: ignore[attr-defined]
        for reader in silent:
            status, said = await answer(reader)
            assert (status, said["errors"]) == (408, ["the body: expected all of it within 2 s, got less"])
        assert (await server.ask("acme", "/v1/verdict", call("acme")))[0] == 200, "and then it may ask again"

    served(talk)


HEADS: dict[str, bytes] = {
    "nothing": b"",
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-",
    "no HTTP": b"\x16\x03\x01\x02",
}


@cases("sent", HEADS)
def test_heads_that_do_not_end_are_ended_and_hold_nobody(sent: bytes) -> None:
    async def talk(server: Server) -> None:
        silent = await server.begun(6 * SHARE, sent)  # more than there are connections
        assert await server.is_served()
        async with asyncio.timeout(ENDED_S):
            for reader in silent:
                with contextlib.suppress(ConnectionError):
                    await reader.read()

    served(talk, headers_s=1.0)


def test_a_client_that_does_not_read_its_answers_is_ended() -> None:
    asked = head("acme", "/metrics").replace(b"POST", b"GET") * 100

    async def asks_on(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(asked)
            await writer.drain()

    async def talk(server: Server) -> None:
        _, writer = await server.open()
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(asks_on(writer), 4 * ENDED_S)
        assert await server.is_served()

    served(talk, read_s=0.05)


def test_without_a_key_nobody_takes_room() -> None:
    async def talk(server: Server) -> None:
        readers = await server.begun(3 * SHARE, head("nobody", "/v1/events", "Content-Length: 100"))
        assert {(await answer(reader))[0] for reader in readers} == {401}
        assert await server.is_served()

    served(talk)


def test_a_packed_bomb_is_refused_and_so_is_more_than_the_share_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_BYTES", 2_000_000)

    async def talk(server: Server) -> None:
        bomb = gzip.compress(b" " * 16 * 1024 * 1024)
        sent = head("acme", "/v1/events", PACKED, f"Content-Length: {len(bomb)}") + bomb
        for reader in await server.begun(3, sent):
            assert (await answer(reader))[0] in {413, 503}
        half = head("acme", "/v1/events", "Content-Length: 4000000") + b"[" * 1_500_000
        status, said = await answer((await server.open(half))[0])
        assert (status, "to have bodies within its share" in said["errors"][0]) == (503, True)
        assert await server.is_served()
        assert (await server.ask("acme", "/v1/verdict", call("acme")))[0] == 200, "what it had is given back"

    served(talk)


def test_large_bodies_of_a_key_wait_for_each_other_and_another_is_answered_between() -> None:
    large = [{"kind": "action.proposed", "session_id": "a", "agent_id": "acme-a", "action": "x" * 400}] * 900

    async def talk(server: Server) -> None:
        asked = [asyncio.create_task(server.ask("acme", "/v1/events", large)) for _ in range(SHARE)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert await server.is_served()
        assert not all(one.done() for one in asked)
        assert {status for status, _ in await asyncio.gather(*asked)} == {501}, "this intake has no broker"

    served(talk)


def test_an_idempotency_key_is_of_its_tenant() -> None:
    async def talk(server: Server) -> None:
        key = "Idempotency-Key: 0123456789abcdef"
        first = await server.ask("acme", "/v1/verdict", call("acme", call_id="one"), key)
        other = await server.ask("umbrella", "/v1/verdict", call("umbrella", call_id="two"), key)
        again = await server.ask("acme", "/v1/verdict", call("acme", call_id="one"), key)
        assert [first[0], first[1]["call_id"], again] == [200, "one", first]
        assert (other[0], other[1]["call_id"]) == (200, "two")
        same = call("acme", session_id="s")
        assert (await server.ask("acme", "/v1/start", same, key))[0] == 200
        assert (await server.ask("umbrella", "/v1/start", same, key))[0] == 403

    served(talk)


OTHERS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a verdict": ("/v1/verdict", {"action": "ls"}, 403),
    "a turn": ("/v1/turn", {}, 403),
    "a start": ("/v1/start", {}, 403),
    "a session below it": ("/v1/start", {"session_id": "mine", "parent_session_id": "secret-1"}, 403),
    "a result": ("/v1/result", {"call_id": "c"}, 404),
    "an end": ("/v1/end", {}, 404),
    "without an agent": ("/v1/start", {"session_id": "new", "agent_id": None}, 403),
    "LiteLLM": (
        requests.LITELLM,
        {
            "input_type": "request",
            "litellm_trace_id": "secret-1",
            "request_headers": {"x-litellm-session-id": "secret-1"},
            "request_data": {"user_api_key_alias": "acme-a"},
        },
        200,
    ),
}


@cases("path, fields, status", OTHERS)
def test_of_another_s_session_nothing_is_told(path: str, fields: dict[str, Any], status: int) -> None:
    asked = {"session_id": "secret-1", "agent_id": "acme-a"} | fields
    gone = orjson.loads(orjson.dumps(asked).replace(b"secret-1", b"secret-2"))

    async def talk(server: Server) -> None:
        begun = call("umbrella", session_id="secret-1", agent_id="umbrella-hidden", call_id="c")
        assert (await server.ask("umbrella", "/v1/verdict", begun))[0] == 200
        found, said = await server.ask("acme", path, asked)
        assert (found, "hidden" in str(said), "umbrella" in str(said), "unknown" in str(said)) == (status, *[False] * 3)
        if status == 404:
            assert await server.ask("acme", path, gone) == (
                404,
                orjson.loads(str(orjson.dumps(said), "ascii").replace("secret-1", "secret-2")),
            )
        assert (await server.ask("umbrella", "/v1/result", {"session_id": "secret-1", "call_id": "c"}))[0] == 200

    served(talk)


def test_a_tenant_with_many_sessions_loses_its_own() -> None:
    async def talk(server: Server) -> None:
        assert (await server.ask("umbrella", "/v1/verdict", call("umbrella", call_id="c")))[0] == 200
        for number in range(8):
            assert (await server.ask("acme", "/v1/start", call("acme", session_id=f"a{number}")))[0] == 200
        result = {"session_id": "umbrella-1", "call_id": "c"}
        assert (await server.ask("umbrella", "/v1/result", result))[0] == 200
        assert (await server.ask("acme", "/v1/end", {"session_id": "a0"}))[0] == 404
        assert (await server.ask("acme", "/v1/end", {"session_id": "a7"}))[0] == 200

    served(talk, max_sessions=4)


def test_each_key_may_have_as_much_as_it_leaves() -> None:
    room, keys = Room(12, "things"), [Key(name, Scope(may=(May.PUBLISH,))) for name in "abc"]
    held = []
    for key in keys:
        with contextlib.suppress(Busy):
            while True:
                room.take(key)
                held.append(key.name)
    assert [held.count(name) for name in "abc"] == [6, 3, 1]
    room.give_back(keys[0], 6)
    with room.taken(keys[2], 3), pytest.raises(Busy, match="key b to have things"):
        room.take(keys[1], 2)
    room.take(keys[1], 2)
