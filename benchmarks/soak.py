"""`python -m benchmarks.soak`: a worker's memory at a steady rate, over an hour, on a real Kafka.

The same sessions call tools all the time, so that their states stop growing once they are at their bounds: memory that
grows afterwards is a leak, of this code or of a library.
"""

import argparse
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import linear_regression

import orjson

from benchmarks import command, processes
from benchmarks.cluster import Cluster, Group, started
from benchmarks.load import Load, generate, paced
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children

_SAMPLE_EVERY_S = 10.0
_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A measurement of the worker."""

    after_s: float
    rss_bytes: int
    cpu_s: float
    lag: int
    """Events that are not processed yet."""


def growth_bytes_per_hour(samples: Sequence[Sample]) -> float:
    """Slope of memory by least squares. 0 for fewer than two samples."""
    if len(samples) < 2:
        return 0.0
    return linear_regression([s.after_s / 3600 for s in samples], [s.rss_bytes for s in samples]).slope


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 if it was measured to the end."""
    options = _options().parse_args(arguments)
    with started("soak") as (cluster, children, _):
        samples = _run(cluster, children, options)
    second_half = [s for s in samples if s.after_s >= options.minutes * 30]
    result = {
        "minutes": options.minutes,
        "rate": options.rate,
        "sessions": options.sessions,
        "load_average": os.getloadavg()[1],
        "rss_mib": {
            "first": samples[0].rss_bytes / _MIB,
            "middle": second_half[0].rss_bytes / _MIB,
            "last": samples[-1].rss_bytes / _MIB,
            "most": max(s.rss_bytes for s in samples) / _MIB,
        },
        "growth_mib_per_hour_of_second_half": growth_bytes_per_hour(second_half) / _MIB,
        "cpu_us_per_event": samples[-1].cpu_s * 1e6 / (options.rate * samples[-1].after_s),
        "most_lag": max(s.lag for s in samples),
        "samples": [asdict(s) for s in samples],
    }
    print(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
    return 0


def _run(cluster: Cluster, children: Children, options: argparse.Namespace) -> list[Sample]:
    topics, name = Topics("soak."), "soak"
    cluster.make_topics(topics, f"{name}-sessions-changelog")
    worker = processes.start_worker(children, name, cluster.bootstrap, topics.prefix, name)
    stop = threading.Event()
    load = Load(
        events=int(options.rate * options.minutes * 60),
        sessions=options.sessions,
        start_ms=time.time_ns() // 1_000_000,
        seconds_between=options.sessions / options.rate,  # event time passes like wall time
        runaway_share=0.0,
        destructive_share=0.0,
    )
    group = Group(cluster.bootstrap, name, [topics.actions])
    began = time.monotonic()
    samples: list[Sample] = []
    with ThreadPoolExecutor(1) as threads:
        producing = threads.submit(cluster.fill, topics.actions, paced(generate(load), options.rate, stop))
        try:
            while (after_s := time.monotonic() - began) < options.minutes * 60:
                worker.require_running()
                if producing.done():
                    producing.result()
                samples.append(_sample(worker, group, after_s))
                stop.wait(_SAMPLE_EVERY_S)
        finally:
            stop.set()
            group.close()
    processes.stop(worker)
    return samples


def _sample(worker: Child, group: Group, after_s: float) -> Sample:
    rss_bytes, cpu_s = processes.rss_bytes(worker.pid), processes.cpu_s(worker.pid)
    if rss_bytes is None or cpu_s is None:
        raise RuntimeError("expected /proc to report the worker's memory, got nothing")
    return Sample(after_s=after_s, rss_bytes=rss_bytes, cpu_s=cpu_s, lag=group.end() - group.committed())


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.soak", __doc__, "--minutes 60 --rate 300 --sessions 2000")
    parser.add_argument("--minutes", type=float, default=60.0, help="(%(default)s)")
    parser.add_argument("--rate", type=float, default=300.0, help="events per second (%(default)s)")
    parser.add_argument("--sessions", type=int, default=2_000, help="(%(default)s)")
    return parser


if __name__ == "__main__":
    command.run(main)
