"""`python -m benchmarks.hostile`: the console and the intake under a hostile client, and how they are meanwhile.

Both are started here, on loopback, with an embedded broker; nothing else is ever asked. A process of its own attacks
them in turns of every kind below, so many at a time, until the time is over or the count is reached: without a key, and
with one. This process asks for their health all the while, four times a second, and reads their memory. What is shown
is the longest wait for an answer, the most memory, and what each attack was answered.
"""

import argparse
import asyncio
import gzip
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import orjson
from rich.console import Console
from rich.table import Table

from benchmarks import processes
from haltline.console.access.keys import digest_of, new_key
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.subprocesses import Child, Children, interruptible

CONSOLE, INTAKE, ASKING = "console", "intake", "the one that asks, by itself"
MAX_SECONDS = 3600.0
MAX_ATTACKS = 1_000_000
_PROBE_EVERY_S = 0.25
_PROBE_WITHIN_S = 20.0
_ATTACK_WITHIN_S = 30.0
_AT_ONCE = 48
_MIB = 1024 * 1024
_JSON = {"Content-Type": "application/json"}
_ALIASES = "\n".join(
    ["l0: &l0 [x,x,x,x,x,x,x,x,x,x]", *(f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))]
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One of the two, and what opens it."""

    name: str
    url: str
    key: str
    hold_s: float
    """How long a slow client holds on, unless it is ended."""

    def connect(self) -> Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A bare connection, to this machine and no other."""
        address = urlsplit(self.url)
        if address.hostname != "127.0.0.1" or address.port is None:
            raise ValueError(f"the target: expected one on 127.0.0.1, got {self.url}")
        return asyncio.open_connection(address.hostname, address.port)

    def bearer(self, *, known: bool) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key if known else 'hl_nobody'}"}


Attack = Callable[[Target, aiohttp.ClientSession], Awaitable[str]]
"""One blow; what it was answered."""


@dataclass(kw_only=True)
class Seen:
    """One of the two, as it was meanwhile."""

    waits_s: list[float] = field(default_factory=list)
    unanswered: int = 0
    rss_before: int = 0
    rss_peak: int = 0
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By attack and answer."""


def _raw(head: str, *parts: bytes, every_s: float = 0.0, reads: bool = True) -> Attack:
    """Bytes as they are, then held."""

    async def attack(target: Target, _: aiohttp.ClientSession) -> str:
        reader, writer = await target.connect()
        try:
            writer.write(head.replace("KEY", target.key).encode())
            for part in parts:
                writer.write(part)
                await asyncio.wait_for(writer.drain(), target.hold_s)
                await asyncio.sleep(every_s)
            if not reads:
                await asyncio.sleep(target.hold_s)
                return "not read"
            result = await asyncio.wait_for(reader.read(64), target.hold_s)
            return result[9:12].decode(errors="replace") if result else "closed"
        except TimeoutError:
            return "held"
        finally:
            writer.transport.abort()

    return attack


def _post(path: str, body: Callable[[], bytes], *, known: bool = True, **headers: str) -> Attack:
    async def attack(target: Target, http: aiohttp.ClientSession) -> str:
        result = {
            **_JSON,
            **target.bearer(known=known),
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        async with http.post(target.url + path, data=body(), headers=result) as answer:
            await answer.read()
            return str(answer.status)

    return attack


def _streamed(path: str, *, known: bool) -> Attack:
    """A body without a length, and nearly without an end."""

    async def body() -> AsyncIterator[bytes]:
        for _ in range(512):
            yield b"[" * 64 * 1024

    async def attack(target: Target, http: aiohttp.ClientSession) -> str:
        async with http.post(target.url + path, data=body(), headers={**_JSON, **target.bearer(known=known)}) as answer:
            return str(answer.status)

    return attack


def _stream(path: str) -> Attack:
    async def attack(target: Target, http: aiohttp.ClientSession) -> str:
        async with http.get(target.url + path, headers=target.bearer(known=True)) as answer:
            await asyncio.sleep(target.hold_s)
            return str(answer.status)

    return attack


def _document(text: str) -> Callable[[], bytes]:
    return lambda: orjson.dumps({"document": text, "reason": "to see"})


def _spans() -> bytes:
    scope = b"\x12\x00" * (_MIB // 2)
    resource = b"\x12" + _varint(len(scope)) + scope
    return b"\x0a" + _varint(len(resource)) + resource


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


_ZEROS = gzip.compress(b" " * 64 * _MIB)
_HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer KEY\r\nContent-Type: application/json\r\n"
_COMMON: dict[str, Attack] = {
    "headers that never end": _raw("GET /healthz HTTP/1.1\r\nX-A: ", *[b"a"] * 20, every_s=0.5),
    "a header of 8 MB": _raw("GET /healthz HTTP/1.1\r\nX-A: ", *[b"a" * _MIB] * 8),
    "a million headers": _raw("GET /healthz HTTP/1.1\r\n", *[b"X: y\r\n" * 10_000] * 100),
    "no HTTP at all": _raw("\x16\x03\x01" + "\x00" * 1000),
    "answers that are not read": _raw("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2000, reads=False),
}
ATTACKS: Mapping[str, Mapping[str, Attack]] = {
    CONSOLE: _COMMON
    | {
        "a body that comes slowly": _raw(
            _HEAD.format(path="/api/v1/ingest") + "Content-Length: 1000\r\n\r\n", *[b"["] * 20, every_s=0.5
        ),
        "a sign-in that comes slowly": _raw(
            "POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", *[b"k"] * 20, every_s=0.5
        ),
        "32 MB without a key": _streamed("/api/v1/ingest", known=False),
        "32 MB with a key": _streamed("/api/v1/ingest", known=True),
        "8 MB of empty lists": _post("/api/v1/ingest", lambda: b"[" + b"[]," * (8 * _MIB // 3 - 2) + b"[]]"),
        "brackets without end": _post("/api/v1/ingest", lambda: b"[" * 200_000),
        "numbers that are none": _post("/api/v1/ingest", lambda: b'{"entries": [{"cost": NaN}]}'),
        "64 MB in 64 KB": _post("/v1/ingest/traces", lambda: _ZEROS, Content_Encoding="gzip"),
        "aliases of aliases": _post("/api/v1/policies/check", _document(_ALIASES)),
        "a policy without end": _post("/api/v1/policies/check", _document("[" * 200_000)),
        "a policy of 200 000 values": _post("/api/v1/policies/check", _document(f"a: [{'1,' * 200_000}]")),
        "what-if of aliases": _post("/api/v1/policy/what-if", _document(_ALIASES)),
        "streams of events": _stream("/api/v1/events"),
        "no key": _post("/api/v1/ingest", lambda: b"{}", known=False),
    },
    INTAKE: _COMMON
    | {
        "a body that comes slowly": _raw(
            _HEAD.format(path="/v1/events") + "Content-Length: 1000\r\n\r\n", *[b"["] * 20, every_s=0.5
        ),
        "32 MB without a token": _streamed("/v1/events", known=False),
        "32 MB with a token": _streamed("/v1/events", known=True),
        "8 MB of empty lists": _post("/v1/events", lambda: b"[" + b"[]," * (8 * _MIB // 3 - 2) + b"[]]"),
        "8 MB of empty lines": _post("/v1/events", lambda: b"\n" * 8 * _MIB, Content_Type="application/x-ndjson"),
        "brackets without end": _post("/v1/events", lambda: b"[" * 200_000),
        "64 MB in 64 KB": _post("/v1/events", lambda: _ZEROS, Content_Encoding="gzip"),
        "half a million spans": _post("/v1/traces", _spans, Content_Type="application/x-protobuf"),
        "a new session each time": _post(
            "/v1/verdict", lambda: orjson.dumps({"session_id": f"s{random.random()}", "action": "get_x"})
        ),
        "no token": _post("/v1/events", lambda: b"[]", known=False),
    },
}


async def _attack(targets: Sequence[Target], until_s: float, count: int) -> Counter[tuple[str, str, str]]:
    """So many at a time, each kind in turn."""
    kinds = [(target, name, attack) for target in targets for name, attack in ATTACKS[target.name].items()]
    turns = itertools.islice(itertools.cycle(kinds), count)
    answers: Counter[tuple[str, str, str]] = Counter()

    async def go_on(http: aiohttp.ClientSession) -> None:
        for target, name, attack in turns:
            if time.monotonic() >= until_s:
                return
            try:
                answer = await asyncio.wait_for(attack(target, http), _ATTACK_WITHIN_S)
            except TimeoutError:
                answer = "no answer"
            except (aiohttp.ClientError, OSError):
                answer = "closed"
            answers[target.name, name, answer] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as http:
        await asyncio.gather(*(go_on(http) for _ in range(_AT_ONCE)))
    return answers


def _attacker(reported: Connection, targets: Sequence[Target], seconds: float, count: int) -> None:
    reported.send(asyncio.run(_attack(targets, time.monotonic() + seconds, count)))
    reported.close()


async def _watch(url: str, pid: int, seen: Seen, ended: asyncio.Event) -> None:
    """Asks for its health until the end: each time on a new connection, as a probe does."""
    connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(_PROBE_WITHIN_S)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as http:
        while not ended.is_set():
            began = time.monotonic()
            try:
                async with http.get("/healthz") as answer:
                    await answer.read()
                    seen.unanswered += answer.status != 200
            except (aiohttp.ClientError, OSError, TimeoutError):
                seen.unanswered += 1
            seen.waits_s.append(time.monotonic() - began)
            seen.rss_peak = max(seen.rss_peak, processes.rss_bytes(pid) or 0)
            await asyncio.sleep(max(0.0, _PROBE_EVERY_S - (time.monotonic() - began)))


async def _be_late(seen: Seen, ended: asyncio.Event) -> None:
    """How late this process itself is woken up: what the machine is short of, whoever is asked."""
    while not ended.is_set():
        due = time.monotonic() + _PROBE_EVERY_S
        await asyncio.sleep(_PROBE_EVERY_S)
        seen.waits_s.append(time.monotonic() - due)


def run(folder: Path, *, seconds: float, attacks: int = MAX_ATTACKS, hold_s: float = 12.0) -> dict[str, Seen]:
    """Starts both, has them attacked, and tells how they were. At most so many seconds, and so many attacks."""
    seconds, attacks = min(seconds, MAX_SECONDS), min(attacks, MAX_ATTACKS)
    with EmbeddedBroker() as broker, Children(folder / "logs") as children:
        broker.ensure_topics(Topics())
        targets, running = _started(broker.bootstrap, children, folder, hold_s)
        seen = {target.name: Seen(rss_before=processes.rss_bytes(running[target.name].pid) or 0) for target in targets}
        seen[ASKING] = Seen()
        answers = asyncio.run(_meanwhile(targets, running, seen, seconds, attacks))
        for (name, attack, answer), times in answers.items():
            seen[name].answers[attack, answer] += times
        for child in running.values():
            child.require_running()
            seen[child.name].rss_peak = processes.peak_rss_bytes(child.pid) or seen[child.name].rss_peak
            processes.stop(child)
    return seen


async def _meanwhile(
    targets: Sequence[Target], running: Mapping[str, Child], seen: Mapping[str, Seen], seconds: float, attacks: int
) -> Counter[tuple[str, str, str]]:
    reported, tells = get_context("spawn").Pipe(duplex=False)
    attacker = get_context("spawn").Process(target=_attacker, args=(tells, targets, seconds, attacks), daemon=True)
    ended = asyncio.Event()
    attacker.start()
    tells.close()
    async with asyncio.TaskGroup() as group:
        group.create_task(_be_late(seen[ASKING], ended))
        for target in targets:
            group.create_task(_watch(target.url, running[target.name].pid, seen[target.name], ended))
        try:
            answers: Counter[tuple[str, str, str]] = await asyncio.to_thread(reported.recv)
        finally:
            ended.set()
            attacker.join(_ATTACK_WITHIN_S)
    return answers


def _started(
    bootstrap: str, children: Children, folder: Path, hold_s: float
) -> tuple[Sequence[Target], Mapping[str, Child]]:
    key, token = new_key(), new_key()
    (folder / "keys.yaml").write_text(f"- {{name: hostile, role: operator, sha256: {digest_of(key)}}}\n")
    (folder / "token").write_text(token)
    common = ["--bootstrap", bootstrap, "--port", "0"]
    commands = {
        CONSOLE: ["--keys", f"{folder}/keys.yaml", "--database", f"sqlite:///{folder}/hostile.db"],
        INTAKE: ["--token-file", f"{folder}/token"],
    }
    running = {
        name: processes.start(children, name, processes.WORKER, [name, *common, *more])
        for name, more in commands.items()
    }
    opens = {CONSOLE: key, INTAKE: token}
    return [
        Target(name=name, url=_address(child), key=opens[name], hold_s=hold_s) for name, child in running.items()
    ], running


def _address(child: Child) -> str:
    def said() -> list[str]:
        lines = child.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line.strip() for line in lines if line.startswith("http://127.0.0.1:")]

    processes.wait_until(child, said, "its address", within_s=60)
    return said()[0]


def show(found: Mapping[str, Seen]) -> None:
    """For people."""
    table = Table("", "probes", "failed", "p50", "p99", "longest", "memory before", "at most", title="Under attack")
    for name, seen in found.items():
        waits = sorted(seen.waits_s)
        at = [waits[min(len(waits) - 1, int(share * len(waits)))] for share in (0.5, 0.99, 1.0)]
        shown = [f"{one * 1000:.0f} ms" for one in at] + [
            f"{size / _MIB:.0f} MiB" for size in (seen.rss_before, seen.rss_peak)
        ]
        table.add_row(name, str(len(waits)), str(seen.unanswered), *shown)
    answers = Table("", "attack", "answers", title="What was answered")
    for name, seen in found.items():
        for attack in dict.fromkeys(attack for attack, _ in seen.answers):
            result = {answer: times for (of, answer), times in seen.answers.items() if of == attack}
            answers.add_row(name, attack, ", ".join(f"{answer}: {times}" for answer, times in sorted(result.items())))
    for one in (answers, table):
        Console(width=120).print(one)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when both were there to the end."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.hostile --seconds 300",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help=f"(%(default)s; at most {MAX_SECONDS:.0f})")
    parser.add_argument("--attacks", type=int, default=MAX_ATTACKS, help="end after so many (%(default)s)")
    args = parser.parse_args(arguments)
    with interruptible(), tempfile.TemporaryDirectory(prefix="haltline-hostile-") as folder:
        show(run(Path(folder), seconds=args.seconds, attacks=args.attacks))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
