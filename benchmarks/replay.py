"""`python -m benchmarks.replay`: time to replay a worker's decisions from Kafka and from the audit table.

A real worker and a real audit sink process generated events on a real Kafka. Then `haltline replay --exact` replays
both. Exit 1 if a decision differs in a field other than the worker's clock.

On a shared machine, compare processor time instead of wall time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks import command, processes
from benchmarks.cluster import Cluster, Group, started
from benchmarks.load import Load, generate
from benchmarks.reporting.table import Table, mib, us
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children

TOPICS = Topics("replayed.")
_GROUP = "replayed"
_DONE_WITHIN_S = 3_600.0
_WIDTH = 140


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of one process."""

    what: str
    events: int
    """Records of the topic of actions."""
    seconds: float
    cpu_s: float | None
    peak_rss_bytes: int | None
    """The peak of the largest process."""
    compared: int | None = None
    """Number of compared decisions; None for the worker itself."""
    same: int | None = None
    first_divergence: object = None

    @property
    def ok(self) -> bool:
        """Return whether every decision is the same."""
        return self.first_divergence is None and self.compared == self.same


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 if every decision is the same, else 1."""
    args = _options().parse_args(arguments)
    console = Console(stderr=True)
    with started("replay", args.logs) as (cluster, children, folder):
        audit = folder / "audit"
        runs = [_live(args, cluster, children, audit, console)]
        for source, options in (("kafka", ["--bootstrap", cluster.bootstrap]), ("audit", ["--table", str(audit)])):
            console.print(f"Replaying from {source} ...")
            runs.append(_replay(source, options, args.events))
    _show(runs)
    if args.json is not None:
        args.json.write_bytes(orjson.dumps([asdict(run) for run in runs], option=orjson.OPT_INDENT_2))
    return 0 if all(run.ok for run in runs) else 1


def _live(args: argparse.Namespace, cluster: Cluster, children: Children, audit: Path, console: Console) -> Run:
    """Run a worker, then a sink, until each has committed everything."""
    twelve_hours_ago_ms = time.time_ns() // 1_000_000 - 12 * 3_600_000
    load = Load(events=args.events, sessions=args.sessions, start_ms=twelve_hours_ago_ms, seed=args.seed)
    cluster.make_topics(TOPICS, f"{_GROUP}-sessions-changelog")
    console.print(f"Producing {args.events:,} events of {args.sessions:,} sessions ...")
    cluster.fill(TOPICS.actions, generate(load))
    console.print("A worker decides ...")
    began = time.perf_counter()
    worker = processes.start_worker(children, "worker", cluster.bootstrap, TOPICS.prefix, _GROUP)
    _until_committed(cluster.bootstrap, _GROUP, TOPICS.session_sources, worker)
    live = Run(
        what="worker, with its start and its states",
        events=args.events,
        seconds=time.perf_counter() - began,
        cpu_s=processes.cpu_s(worker.pid),
        peak_rss_bytes=processes.peak_rss_bytes(worker.pid),
    )
    processes.stop(worker)
    console.print("The audit sink writes ...")
    options = ["--bootstrap", cluster.bootstrap, "--prefix", TOPICS.prefix, "--table", str(audit)]
    sink = processes.start(children, "audit", processes.WORKER, ["audit", *options, "--metrics-port", "0"])
    _until_committed(cluster.bootstrap, f"{_GROUP}-audit", TOPICS.all, sink)
    processes.stop(sink)
    return live


def _until_committed(bootstrap: str, group: str, topics: Sequence[str], child: Child) -> None:
    watched = Group(bootstrap, group, topics)

    def done() -> bool:
        try:
            return watched.committed() >= watched.end()
        except KafkaException:  # a busy broker may lose its leadership for a moment
            return False

    try:
        processes.wait_until(child, done, "everything committed", within_s=_DONE_WITHIN_S)
    finally:
        watched.close()


def _replay(source: str, options: Sequence[str], events: int) -> Run:
    """Run the command like an operator."""
    command = [sys.executable, "-m", processes.WORKER, "replay", source, "--prefix", TOPICS.prefix, "--exact", "--json"]
    with tempfile.TemporaryFile() as out:
        began = time.perf_counter()
        child = subprocess.Popen([*command, *options], stdout=out)
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        document = orjson.loads(out.read() or b"{}")
    if child.returncode not in (0, 1) or document.get("records", {}).get(TOPICS.actions) != events:
        raise RuntimeError(
            f"replay of {source}: expected {events} events, got exit {child.returncode}: {document!r:.300}"
        )
    return Run(
        what=f"replay from {source}",
        events=events,
        seconds=seconds,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_rss_bytes=used.ru_maxrss * 1024,
        compared=document["recorded"],
        same=document["same"],
        first_divergence=document["first_divergence"],
    )


def _show(runs: Sequence[Run]) -> None:
    columns = ["", "events/s", "seconds", "CPU per event", "peak memory", "decisions compared", "the same"]
    rows = [
        [
            run.what,
            f"{run.events / run.seconds:,.0f}",
            f"{run.seconds:,.1f}",
            us(None if run.cpu_s is None else run.cpu_s * 1e6 / run.events),
            mib(run.peak_rss_bytes),
            *("" if count is None else f"{count:,}" for count in (run.compared, run.same)),
        ]
        for run in runs
    ]
    lines = [f"{r.what}: first divergence: {r.first_divergence}" for r in runs if r.first_divergence is not None]
    Table("", columns, rows, lines).show(Console(width=_WIDTH))


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.replay", __doc__, "--events 100000")
    parser.add_argument("--events", type=int, default=1_000_000, help="(%(default)s)")
    parser.add_argument("--sessions", type=int, default=1_000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--logs", metavar="DIR", help="keep the logs of the processes there")
    return parser


if __name__ == "__main__":
    command.run(main)
