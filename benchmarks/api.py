"""`python -m benchmarks.api`: how long the console's routes take while events come and the sink writes them.

A real Kafka, a worker, the audit sink and the console, each a process, and a load of events beside. Requests go out at
a fixed rate, whether those before are answered or not; a time is from when a request was due to its whole answer, so
that waiting for a client that is behind counts. A POST of a record is answered when the broker has confirmed it and
the read model has it.
"""

import argparse
import itertools
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import orjson
from rich.console import Console
from rich.table import Table

from benchmarks import processes
from benchmarks.cluster import Cluster
from benchmarks.load import Load, generate
from haltline.console.auth import digest_of, new_key
from haltline.schemas.topics import Topics
from haltline.streams.children import Child, Children, interruptible
from haltline.streams.local_kafka import LocalKafka, LocalKafkaError, fetch, missing_tools

_PREFIX = "api."
_CLIENTS = 64
_WARM_UP_S = 3.0
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


Ask = Callable[[httpx.Client, str], httpx.Response]

_RECORD = {
    "type": "hard_block", "outcome": "blocked", "action_name": "delete_asset", "risk_level": "high",
    "estimated_cost_usd": 1.0, "reason": "measured",
}  # fmt: skip
_ENTRY = {"action": "read_page", "outcome": "success", "payload": {"inputs": {"page": 1}, "outputs": "text"}}


def _ingest(client: httpx.Client, number: str) -> httpx.Response:
    entry = {**_ENTRY, "id": number, "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())}
    return client.post("/api/v1/ingest", json={"run_id": f"m-{number[:2]}", "entries": [entry]})


ROUTES: dict[str, Ask] = {
    "POST /interventions": lambda c, n: c.post("/api/v1/interventions", json={**_RECORD, "run_id": n}),
    "POST /ingest": _ingest,
    "POST /budgets/reserve": lambda c, n: c.post(
        "/api/v1/budgets/reserve", json={"action_name": "train", "estimated_cost_usd": 0.01, "run_id": n[:2]}
    ),
    "GET /interventions": lambda c, _: c.get("/api/v1/interventions", params={"limit": 50}),
    "GET /interventions/stats": lambda c, _: c.get("/api/v1/interventions/stats"),
    "GET /sessions": lambda c, _: c.get("/api/v1/sessions", params={"limit": 50}),
    "GET /kill-switch/check": lambda c, n: c.get(
        "/api/v1/kill-switch/check", params={"target_type": "run", "target_id": n}
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when everything was measured."""
    asked = _options().parse_args(arguments)
    if missing := missing_tools():
        print(f"benchmarks: wanted {' and '.join(missing)}; came no such command on PATH", file=sys.stderr)
        return 1
    with interruptible(), tempfile.TemporaryDirectory(prefix="haltline-api-") as scratch:
        folder = Path(scratch)
        with (
            LocalKafka(folder / "kafka", jars=fetch()) as kafka,
            Children(Path(asked.logs or scratch, "logs")) as children,
        ):
            cluster = Cluster(kafka)
            served, url, key = _system(cluster, children, folder)
            before = processes.cpu_s(served.pid) or 0.0
            times = _measured(cluster, url, key, asked)
            cpu_s = (processes.cpu_s(served.pid) or 0.0) - before
    _show(times, asked, cpu_s)
    if asked.json is not None:
        asked.json.write_bytes(orjson.dumps([asdict(one) for one in times], option=orjson.OPT_INDENT_2))
    return 0 if not any(one.failed for one in times) else 1


def _system(cluster: Cluster, children: Children, folder: Path) -> tuple[Child, str, str]:
    """Starts all of it; the console, its address, and a key."""
    topics = Topics(_PREFIX)
    cluster.make_topics(topics, "api-sessions-changelog")
    key = new_key()
    (folder / "keys.yaml").write_text(f"- {{name: measured, role: admin, sha256: {digest_of(key)}}}\n")
    common = ("--bootstrap", cluster.bootstrap, "--prefix", _PREFIX)
    worker = processes.start(
        children, "worker", processes.WORKER, processes.worker_arguments(cluster.bootstrap, _PREFIX, "api")
    )
    table = ("--table", str(folder / "audit"))
    processes.start(
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
    return served, url, key


def _address(served: Child) -> str:
    def said() -> list[str]:
        lines = served.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line.strip() for line in lines if line.startswith("http://")]

    processes.wait_until(served, said, "the console's address", within_s=60)
    return said()[0]


def _measured(cluster: Cluster, url: str, key: str, asked: argparse.Namespace) -> list[Timed]:
    ended = threading.Event()
    load = threading.Thread(target=_publish, args=(cluster, asked.events_per_s, ended), daemon=True)
    load.start()
    try:
        return _asked(url, key, asked.rate, asked.seconds)
    finally:
        ended.set()
        load.join()


def _publish(cluster: Cluster, per_s: int, ended: threading.Event) -> None:
    """Events as they would come, a second of them at a time."""
    topic = Topics(_PREFIX).actions
    for second in itertools.count():
        if ended.is_set():
            return
        begun = time.monotonic()
        start_ms = time.time_ns() // 1_000_000
        load = Load(
            events=per_s,
            sessions=min(50, per_s),
            start_ms=start_ms,
            seconds_between=0.05,
            prefix=f"{_PREFIX}{second}",
        )
        cluster.fill(topic, generate(load))
        ended.wait(max(0.0, 1 - (time.monotonic() - begun)))


def _asked(url: str, key: str, rate: int, seconds: float) -> list[Timed]:
    took: dict[str, list[float]] = {name: [] for name in ROUTES}
    failed = dict.fromkeys(ROUTES, 0)
    limits = httpx.Limits(max_connections=_CLIENTS, max_keepalive_connections=_CLIENTS)
    with (
        httpx.Client(base_url=url, timeout=30, limits=limits, headers={"Authorization": f"Bearer {key}"}) as client,
        ThreadPoolExecutor(_CLIENTS) as threads,
    ):

        def ask(name: str, due: float, counts: bool) -> None:
            try:
                well = ROUTES[name](client, uuid.uuid4().hex).is_success
            except httpx.HTTPError:
                well = False
            if counts:
                took[name].append((time.monotonic() - due) * 1000)
                failed[name] += not well

        begun = time.monotonic()
        for number, name in zip(range(int(rate * (seconds + _WARM_UP_S))), itertools.cycle(ROUTES), strict=False):
            due = begun + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            threads.submit(ask, name, due, number >= rate * _WARM_UP_S)
    return [_timed(name, sorted(times), failed[name]) for name, times in took.items() if times]


def _timed(name: str, times: list[float], failed: int) -> Timed:
    def at(share: float) -> float:
        return times[min(len(times) - 1, int(share * len(times)))]

    return Timed(route=name, requests=len(times), failed=failed, p50_ms=at(0.5), p99_ms=at(0.99), longest_ms=times[-1])


def _show(times: Sequence[Timed], asked: argparse.Namespace, cpu_s: float) -> None:
    title = f"{asked.rate} requests/s, {asked.events_per_s} events/s beside them, the sink writes"
    table = Table("", "requests", "failed", "p50", "p99", "longest", title=title)
    for one in times:
        shown = (f"{value:.1f} ms" for value in (one.p50_ms, one.p99_ms, one.longest_ms))
        table.add_row(one.route, str(one.requests), str(one.failed), *shown)
    Console(width=_WIDTH).print(table)
    requests = asked.rate * (asked.seconds + _WARM_UP_S)
    print(
        f"The console used {cpu_s:.1f} s of a processor: {cpu_s / requests * 1000:.1f} ms a request, with its feeding."
    )


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.api",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.api --rate 100 --seconds 30",
    )
    parser.add_argument("--rate", type=int, default=100, help="requests a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="(%(default)s)")
    parser.add_argument("--events-per-s", type=int, default=200, help="published beside (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--logs", metavar="DIR", help="keep the logs of the processes there")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LocalKafkaError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
