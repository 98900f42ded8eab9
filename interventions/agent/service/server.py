"""The socket of the local service, for any number of agents of this machine's user.

A connection whose first byte is `{` carries requests, one JSON object a line: `{"id": 1, "verb": "begin", ...}`. The
answers come back in any order, each with its `id` and `result` or `error`; orders come unasked: `{"order": "stop",
...}`. Any other connection is one hook of a coding agent: its first line names the agent, and its reply ends it.

The socket is in a folder of the user, and only that user's processes may connect. The service holds a lock while it
runs, and ends after a while without hooks, clients and sessions, if it was started by one.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from haltline.interventions.agent.producers.any_json import parsed, written
from haltline.interventions.agent.service.problems import Bad, Busy, object_of
from haltline.interventions.agent.service.sessions import THIS_USER
from haltline.interventions.agent.service.verbs import Orders, Verbs

log: Final = logging.getLogger("haltline.agent")

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of one line, or of one hook."""
LINGERS_S: Final = 60.0
"""Seconds that a service without sessions waits for the next."""
_SIGN_OF_LIFE_S: Final = 5.0
_READ_S: Final = 30.0
"""Seconds within which a hook has been received."""


class Hooks(Protocol):
    """Answers the hooks of coding agents."""

    def __len__(self) -> int:
        """Return how many sessions it has."""

    def knows(self, head: str) -> bool:
        """Return whether this is the first line of a hook."""

    async def reply(self, head: str, raw: bytes, peer: int) -> bytes:
        """Return the reply to a hook: its first line, its input, and the process that sent it; 0: not known."""

    async def end_idle(self) -> None:
        """End the sessions whose agents ended without a record."""

    async def close(self) -> None:
        """End every session."""


class Server:
    """Serves verbs and hooks on one socket."""

    def __init__(self, path: Path, verbs: Verbs, hooks: Hooks, *, idle_s: float | None) -> None:
        """`idle_s`: seconds without any use after which it ends; None: never."""
        self._path = path
        self._verbs = verbs
        self._hooks = hooks
        self._idle_s = idle_s
        self._used = asyncio.Event()
        self._busy = 0

    async def serve(self, ended: asyncio.Event | None = None, say: Callable[[str], object] = lambda _: None) -> None:
        """Serve until idle, or until `ended` is set; `say` gets the path once it accepts connections.

        Raises SystemExit if there can be no socket at this path.
        """
        self._path.unlink(missing_ok=True)  # of a killed service: the lock shows that none runs
        try:
            server = await asyncio.start_unix_server(self._take, self._path, limit=MAX_BYTES)
            self._path.chmod(0o600)
        except OSError as error:
            raise SystemExit(
                f"{self._path}: expected a path for a socket, got one with which it fails: {error}"
            ) from None
        say(str(self._path))
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._until_idle()),
            asyncio.ensure_future(self._verbs.keep_ending(self._used.set)),
        ]
        if ended is not None:
            waits.append(asyncio.ensure_future(ended.wait()))
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            self._path.unlink(missing_ok=True)
            server.close()
            for one in waits:
                one.cancel()
            await self._hooks.close()
            await self._verbs.close()

    async def _until_idle(self) -> None:
        while True:
            self._used.clear()
            wait_s = self._idle_s
            if wait_s is not None and not len(self._hooks) and not len(self._verbs):
                wait_s = min(wait_s, LINGERS_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):  # wait_for of Python 3.11 may lose a cancellation
                    await self._used.wait()
                await self._hooks.end_idle()
                continue
            if not self._busy and not len(self._verbs):
                return

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._busy += 1
        self._used.set()
        try:
            peer, uid = peer_of(writer.get_extra_info("socket"))
            if uid not in {None, os.getuid()}:
                return
            first = await reader.read(1)
            if first == b"{":
                await _Connection(self._verbs, reader, writer).serve(first)
            else:
                await self._hook(first, reader, writer, peer)
        except ConnectionError:
            pass  # the client has timed out, or ended
        finally:
            self._busy -= 1
            self._used.set()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _hook(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: int) -> None:
        try:
            async with asyncio.timeout(_READ_S):
                head = (first + await reader.readline()).rstrip(b"\n").decode(errors="replace")
                if not self._hooks.knows(head):
                    expected = f"the first line: expected a JSON object or the name of an agent, got {head!r:.80}"
                    writer.write(written({"id": None, "error": {"status": 400, "problems": [expected]}}) + b"\n")
                    return
                raw = await _read_all(reader)
        except TimeoutError:
            return  # its sender has given up by now
        answer = asyncio.ensure_future(self._hooks.reply(head, raw, peer))
        while not (await asyncio.wait({answer}, timeout=_SIGN_OF_LIFE_S))[0]:
            writer.write(b" ")
        writer.write(answer.result())
        await writer.drain()


class _Connection:
    """The requests of one client of the socket, each in a task of its own."""

    def __init__(self, verbs: Verbs, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._verbs = verbs
        self._reader = reader
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()
        self._orders: dict[str, tuple[Orders, asyncio.Task[None]]] = {}

    async def serve(self, first: bytes) -> None:
        """Serve until the client ends the connection. Its sessions then have a while to come back."""
        try:
            while line := await self._line(first):
                first = b""
                task = asyncio.create_task(self._request(line))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            for token, (orders, sending) in self._orders.items():
                sending.cancel()
                self._verbs.disconnect(token, orders)

    async def _line(self, first: bytes) -> bytes:
        try:
            return first + await self._reader.readline()
        except ValueError:  # longer than the limit: what follows cannot be told apart
            problem = f"the line: expected at most {MAX_BYTES} bytes, got more"
            await self._write({"id": None, "error": {"status": 413, "problems": [problem]}})
            return b""

    async def _request(self, line: bytes) -> None:
        number: Any = None
        try:
            fields = _object_in(line)
            number, verb = fields.pop("id", None), fields.pop("verb", None)
            result = await self._verbs.answer(str(verb or ""), fields, THIS_USER)
            if verb == "begin":
                self._listen(result["token"])
            elif verb == "close":
                self._unlisten(str(fields.get("token")))
            await self._write({"id": number, "result": result})
        except Bad as bad:
            await self._write({"id": number, "error": {"status": bad.status, "problems": bad.problems}})
        except Busy as busy:
            await self._write({"id": number, "error": {"status": 503, "problems": [str(busy)]}})
        except Exception:
            log.exception("haltline: a request to the service failed")
            await self._write({"id": number, "error": {"status": 500, "problems": ["the service failed: see its log"]}})

    def _listen(self, token: str) -> None:
        orders = self._verbs.connect(token, THIS_USER)
        self._orders[token] = orders, asyncio.create_task(self._send(orders))

    def _unlisten(self, token: str) -> None:
        if (listening := self._orders.pop(token, None)) is not None:
            listening[1].cancel()

    async def _send(self, orders: Orders) -> None:
        while True:
            await self._write((await orders.get()).model_dump(exclude_none=True))

    async def _write(self, message: dict[str, Any]) -> None:
        """Send a message; waits while the client does not read."""
        async with self._writing:
            if not self._writer.is_closing():
                self._writer.write(written(message) + b"\n")
                with contextlib.suppress(ConnectionError):
                    await self._writer.drain()


def locked(path: Path, run: Callable[[], None]) -> bool:
    """Run with the lock of a socket, which has the process's id. Returns False if another process has it."""
    with open(os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        lock.truncate()
        print(os.getpid(), file=lock, flush=True)
        run()
    return True


def peer_of(connection: socket.socket) -> tuple[int, int | None]:
    """Return process and user at the other end of a Unix socket; None: the user is not told, as on macOS."""
    if sys.platform == "linux":
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(found[:4], sys.byteorder), int.from_bytes(found[4:8], sys.byteorder)
    return connection.getsockopt(0, 2), None  # SOL_LOCAL, LOCAL_PEERPID of macOS; the folder is the user's alone


def _object_in(line: bytes) -> dict[str, Any]:
    try:
        return object_of(parsed(line), "the line")
    except ValueError as error:
        raise Bad(400, f"the line: expected one JSON object, got {error}") from None


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    """Return a hook's message; beyond the limit, a truncated one, which is then unreadable."""
    received = bytearray()
    while len(received) <= MAX_BYTES and (part := await reader.read(65_536)):
        received += part
    return bytes(received)
