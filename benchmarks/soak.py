"""`python -m benchmarks.soak`: workers at a steady rate, over hours, on a real Kafka: memory, processor time and lag.

The same sessions call tools all the time, so that their states stop growing once they are at their bounds: memory that
grows afterwards is a leak, of this code or of a library. With `--live`, the changelog has the states of this many
recorded sessions before the workers start, of which others are active in each hour. At the end the workers are
stopped and started again.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import linear_regression

import orjson

from benchmarks import command, processes
from benchmarks.cluster import Cluster, Group, started
from benchmarks.load import Load, Sent, generate, paced
from benchmarks.quality.sessions import default_files
from benchmarks.sessions import PREFIX, fill, recorded
from benchmarks.verdicts import Probe
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children

_SAMPLE_EVERY_S = 10.0
_MIB = 1024 * 1024
_NAME = "soak"
_CHANGELOG = f"{_NAME}-sessions-changelog"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A measurement. Memory and processor time are sums over the workers."""

    after_s: float
    rss_bytes: float
    cpu_s: float
    broker_cpu_s: float
    lag: int
    """Events that are not processed yet."""
    changelog_bytes: int
    """On the broker's disk."""


def growth_bytes_per_hour(samples: Sequence[Sample]) -> float:
    """Slope of memory by least squares. 0 for fewer than two samples."""
    if len(samples) < 2:
        return 0.0
    return linear_regression([s.after_s / 3600 for s in samples], [s.rss_bytes for s in samples]).slope


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 if it was measured to the end."""
    options = _options().parse_args(arguments)
    with started(_NAME) as (cluster, children, _):
        result = _run(cluster, children, options)
    print(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
    return 0


def _run(cluster: Cluster, children: Children, options: argparse.Namespace) -> dict[str, object]:
    topics = Topics(f"{_NAME}.")
    cluster.make_topics(topics, _CHANGELOG)
    workers, empty_start_s = _start(cluster, children, topics, options.workers, "empty")
    if options.live:
        _stop(workers)
        fill(cluster, _CHANGELOG, recorded(default_files()), options.live)
    workers, start_s = _start(cluster, children, topics, options.workers, "first") if options.live else (workers, 0.0)
    group = Group(cluster.bootstrap, _NAME, [topics.actions])
    samples = list(_samples(cluster, workers, group, topics, options))
    group.close()
    _stop(workers)
    workers, again_s = _start(cluster, children, topics, options.workers, "again")
    again_rss = _sum_of(processes.rss_bytes, workers)
    _stop(workers)
    return _summary(options, samples) | {
        "start_s": {"without sessions": empty_start_s, "first": start_s, "at the end": again_s},
        "rss_mib_after_the_last_start": again_rss / _MIB,
        "samples": [asdict(sample) for sample in samples],
    }


def _summary(options: argparse.Namespace, samples: Sequence[Sample]) -> dict[str, object]:
    second_half = [s for s in samples if s.after_s >= options.minutes * 30]
    events = options.rate * samples[-1].after_s
    return {
        "minutes": options.minutes,
        "rate": options.rate,
        "live": options.live,
        "workers": options.workers,
        "sessions": options.sessions,
        "load_average": os.getloadavg()[1],
        "rss_mib": {
            "first": samples[0].rss_bytes / _MIB,
            "middle": second_half[0].rss_bytes / _MIB,
            "last": samples[-1].rss_bytes / _MIB,
            "most": max(s.rss_bytes for s in samples) / _MIB,
        },
        "growth_mib_per_hour_of_second_half": growth_bytes_per_hour(second_half) / _MIB,
        "cpu_us_per_event": (samples[-1].cpu_s - samples[0].cpu_s) * 1e6 / events,
        "broker_cpu_us_per_event": (samples[-1].broker_cpu_s - samples[0].broker_cpu_s) * 1e6 / events,
        "most_lag": max(s.lag for s in samples),
    }


def _start(cluster: Cluster, children: Children, topics: Topics, workers: int, label: str) -> tuple[list[Child], float]:
    """Start the workers; return them, and the seconds until each partition gave a verdict."""
    probe = Probe(cluster.bootstrap, topics, label)
    began = time.perf_counter()
    group = [
        processes.start_worker(
            children, f"{_NAME}-{label}-{n}", cluster.bootstrap, topics.prefix, _NAME, "--instance-id", f"{_NAME}-{n}"
        )
        for n in range(workers)
    ]
    probe.wait(group)
    return group, time.perf_counter() - began


def _stop(workers: Sequence[Child]) -> None:
    for worker in workers:
        processes.stop(worker)


def _samples(
    cluster: Cluster, workers: Sequence[Child], group: Group, topics: Topics, options: argparse.Namespace
) -> Iterator[Sample]:
    stop = threading.Event()
    began = time.monotonic()
    with ThreadPoolExecutor(1) as threads:
        producing = threads.submit(cluster.fill, topics.actions, paced(_events(options), options.rate, stop))
        try:
            while (after_s := time.monotonic() - began) < options.minutes * 60:
                for worker in workers:
                    worker.require_running()
                if producing.done():
                    producing.result()
                sample = Sample(
                    after_s=after_s,
                    rss_bytes=_sum_of(processes.rss_bytes, workers),
                    cpu_s=_sum_of(processes.cpu_s, workers),
                    broker_cpu_s=processes.cpu_s(cluster.kafka.pid) or 0.0,
                    lag=group.end() - group.committed(),
                    changelog_bytes=cluster.log_bytes(_CHANGELOG),
                )
                print(orjson.dumps(asdict(sample)).decode(), file=sys.stderr, flush=True)
                yield sample
                stop.wait(_SAMPLE_EVERY_S)
        finally:
            stop.set()


def _sum_of(value: Callable[[int], float | None], workers: Sequence[Child]) -> float:
    return sum(value(worker.pid) or 0 for worker in workers)


def _events(options: argparse.Namespace) -> Iterator[Sent]:
    """Yield the events in order; event time passes like wall time. In each hour other live sessions are active."""
    hours = max(1, -(-int(options.minutes) // 60)) if options.live else 1
    start_ms, minutes = time.time_ns() // 1_000_000, options.minutes / hours
    for hour in range(hours):
        yield from generate(
            Load(
                events=int(options.rate * minutes * 60),
                sessions=options.sessions,
                start_ms=start_ms + int(hour * minutes * 60_000),
                seconds_between=options.sessions / options.rate,
                runaway_share=0.0,
                destructive_share=0.0,
                prefix=PREFIX,
                first=hour * options.sessions,
            )
        )


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.soak", __doc__, "--minutes 60 --rate 300 --sessions 2000")
    parser.add_argument("--minutes", type=float, default=60.0, help="(%(default)s)")
    parser.add_argument("--rate", type=float, default=300.0, help="events per second (%(default)s)")
    parser.add_argument("--sessions", type=int, default=2_000, help="active sessions, in each hour (%(default)s)")
    parser.add_argument("--live", type=int, default=0, help="sessions with a state at the start (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="(%(default)s)")
    return parser


if __name__ == "__main__":
    command.run(main)
