"""`python -m benchmarks.api`: response times of the console's routes while the sink writes incoming events.

A real Kafka, a worker, the audit sink and the console, each in its own process, under a load of events. Requests are
sent at a fixed rate, independent of earlier responses. A time is from when a request was due to its complete response,
so delays of the client count (no coordinated omission). A POST of a record is answered when the broker has acknowledged
it and the read model contains it.
"""

import argparse
import asyncio
import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import orjson
import uvloop
from rich.console import Console

from benchmarks import command, processes
from benchmarks.cluster import Cluster, started
from benchmarks.load import Load, Sent, generate, paced
from benchmarks.reporting.table import Table, ms, percentile
from haltline.console.access.keys import digest_of, new_key
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children

_PREFIX = "api."
_CLIENTS = 64
_WARM_UP_S = 3.0
_ANSWER_WITHIN_S = 30.0
_WIDTH = 120


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One route's times, in milliseconds."""

    route: str
    requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


Question = tuple[str, str, dict[str, Any]]
"""Method, path, and further arguments for aiohttp."""

_RECORD = {
    "type": "hard_block", "outcome": "blocked", "action_name": "delete_asset", "risk_level": "high",
    "estimated_cost_usd": 1.0, "reason": "measured",
}  # fmt: skip


def _post(path: str, body: object) -> Question:
    return "POST", f"/api/v1/{path}", {"data": orjson.dumps(body), "headers": {"Content-Type": "application/json"}}


def _get(path: str) -> Question:
    return "GET", f"/api/v1/{path}", {}


ROUTES: dict[str, Callable[[str], Question]] = {
    "POST /interventions": lambda n: _post("interventions", {**_RECORD, "run_id": n}),
    "GET /interventions": lambda _: _get("interventions?limit=50"),
    "GET /interventions/stats": lambda _: _get("interventions/stats"),
    "GET /sessions": lambda _: _get("sessions?limit=50"),
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The results of a run."""

    times: Sequence[Timed]
    cpu_s: Mapping[str, float]
    """Processor time of each process during the requests."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0."""
    args = _options().parse_args(arguments)
    with started("api", args.logs) as (cluster, children, folder):
        running, url, key = _system(cluster, children, folder)
        pids = {"kafka": cluster.kafka.pid, **{child.name: child.pid for child in running}, "asking": os.getpid()}
        found = _measured(cluster, url, key, args, pids)
    _show(found, args)
    if args.json is not None:
        args.json.write_bytes(orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2))
    return 0 if not any(one.failed for one in found.times) else 1


def _system(cluster: Cluster, children: Children, folder: Path) -> tuple[tuple[Child, ...], str, str]:
    """Start everything; return the processes, the console's address and a key."""
    topics = Topics(_PREFIX)
    cluster.make_topics(topics, "api-sessions-changelog")
    key = new_key()
    (folder / "keys.yaml").write_text(f"- {{name: measured, role: admin, sha256: {digest_of(key)}}}\n")
    common = ("--bootstrap", cluster.bootstrap, "--prefix", _PREFIX)
    worker = processes.start_worker(children, "worker", cluster.bootstrap, _PREFIX, "api")
    table = ("--table", str(folder / "audit"))
    sink = processes.start(
        children, "sink", processes.WORKER, ["audit", "--bootstrap", cluster.bootstrap, *common[2:], *table]
    )
    served = processes.start(
        children,
        "console",
        processes.WORKER,
        (
            "console",
            *common,
            "--keys",
            str(folder / "keys.yaml"),
            "--port",
            "0",
            "--database",
            f"sqlite:///{folder}/m.db",
        ),
    )
    url = _address(served)
    with httpx.Client(base_url=url, timeout=30) as client:
        processes.wait_until(worker, lambda: client.get("/readyz").status_code == 200, "the console", within_s=60)
    return (worker, sink, served), url, key


def _address(served: Child) -> str:
    def said() -> list[str]:
        lines = served.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line.strip() for line in lines if line.startswith("http://")]

    processes.wait_until(served, said, "the console's address", within_s=60)
    return said()[0]


def _measured(cluster: Cluster, url: str, key: str, args: argparse.Namespace, pids: Mapping[str, int]) -> Measured:
    ended = threading.Event()
    load = threading.Thread(
        target=cluster.fill, args=(Topics(_PREFIX).actions, _events(args.events_per_s, ended)), daemon=True
    )
    load.start()
    try:
        before = {name: processes.cpu_s(pid) or 0.0 for name, pid in pids.items()}
        times = uvloop.run(_asked(url, key, args.rate, args.seconds))
        used = {name: (processes.cpu_s(pid) or 0.0) - before[name] for name, pid in pids.items()}
    finally:
        ended.set()
        load.join()
    return Measured(times=times, cpu_s=used)


def _events(per_s: int, ended: threading.Event) -> Iterator[Sent]:
    """Yield the events of the load in order; new sessions begin every second."""
    for second in itertools.count():
        load = Load(
            events=per_s,
            sessions=min(50, per_s),
            start_ms=time.time_ns() // 1_000_000,
            seconds_between=0.05,
            prefix=f"{_PREFIX}{second}",
        )
        yield from paced(generate(load), per_s, ended)
        if ended.is_set():
            return


async def _asked(url: str, key: str, rate: int, seconds: float) -> list[Timed]:
    took: dict[str, list[float]] = {name: [] for name in ROUTES}
    failed = dict.fromkeys(ROUTES, 0)
    async with (
        aiohttp.ClientSession(
            url,
            connector=aiohttp.TCPConnector(limit=_CLIENTS),
            timeout=aiohttp.ClientTimeout(_ANSWER_WITHIN_S),
            headers={"Authorization": f"Bearer {key}"},
        ) as client,
        asyncio.TaskGroup() as group,
    ):

        async def ask(name: str, due: float, counts: bool) -> None:
            method, path, more = ROUTES[name](uuid.uuid4().hex)
            try:
                async with client.request(method, path, **more) as answer:
                    await answer.read()
                    well = answer.ok
            except (aiohttp.ClientError, TimeoutError):
                well = False
            if counts:
                took[name].append((time.monotonic() - due) * 1000)
                failed[name] += not well

        begun = time.monotonic()
        for number, name in zip(range(int(rate * (seconds + _WARM_UP_S))), itertools.cycle(ROUTES), strict=False):
            due = begun + number / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(ask(name, due, number >= rate * _WARM_UP_S))
    return [_timed(name, sorted(times), failed[name]) for name, times in took.items() if times]


def _timed(name: str, times: list[float], failed: int) -> Timed:
    p50_ms, p99_ms = (percentile(times, percent) for percent in (50, 99))
    return Timed(route=name, requests=len(times), failed=failed, p50_ms=p50_ms, p99_ms=p99_ms, longest_ms=times[-1])


def _show(found: Measured, args: argparse.Namespace) -> None:
    title = f"{args.rate} requests/s, {args.events_per_s} events/s, the sink writes"
    rows = [
        [one.route, str(one.requests), str(one.failed), *map(ms, (one.p50_ms, one.p99_ms, one.longest_ms))]
        for one in found.times
    ]
    requests = args.rate * (args.seconds + _WARM_UP_S)
    used = ", ".join(f"{name} {used_s:.1f} s" for name, used_s in found.cpu_s.items())
    each_ms = found.cpu_s["console"] / requests * 1000
    lines = [f"Processor time: {used}", f"of the console {each_ms:.1f} ms for each request, with its feeding."]
    Table(title, ["", "requests", "failed", "p50", "p99", "longest"], rows, lines).show(Console(width=_WIDTH))


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.api", __doc__, "--rate 100 --seconds 30")
    parser.add_argument("--rate", type=int, default=100, help="requests a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="(%(default)s)")
    parser.add_argument("--events-per-s", type=int, default=200, help="events published per second (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--logs", metavar="DIR", help="keep the logs of the processes there")
    return parser


if __name__ == "__main__":
    command.run(main)
