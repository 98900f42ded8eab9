"""Growth of the worker's costs with workers and sessions: processor time, memory, changelog, startup.

Every default rule runs. All sessions begin, then their events are interleaved at random; both parts are measured
separately, in processor time. Each worker is pinned to one core. A rate is only given if that core had no other load.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks import processes, verdicts
from benchmarks.cluster import QUIET, Cluster, Group
from benchmarks.load import Load, generate
from benchmarks.reporting.machine import available_bytes
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children

_FEW_SESSIONS: Final = 10_000
"""With fewer sessions, the cost of a new one disappears in a worker's base load."""

_LEFT_BYTES: Final = 2 * 2**30
"""Memory to leave for the broker and other processes."""
_READY_WITHIN_S: Final = 300.0
_ASK_EVERY_S: Final = 0.05


class TooMuch(RuntimeError):
    """The time or the memory ran out before all events were processed."""


@dataclass(frozen=True, kw_only=True)
class Grown:
    """The result for one number of workers and of sessions. Bytes and processor time are sums over the workers."""

    workers: int
    sessions: int
    events: int
    """Without the first event of each session."""
    event_bytes: float
    pinned_to: list[int]
    """The core of each worker."""
    own_cores: bool
    """Each worker had a core of its own; broker and load generator had another one."""
    cpu_us_per_event: float
    """For events of existing sessions."""
    cpu_us_per_new_session: float | None
    """None: too few sessions."""
    events_per_s: float | None
    """None: the workers shared their cores with other processes."""
    broker_cpu_us_per_event: float
    """Includes the load generator's and the workers' writes."""
    empty_rss_bytes: int
    """Before the first session."""
    rss_bytes: int
    peak_rss_bytes: int
    changelog_records: int
    changelog_bytes: int
    """On the broker's disk, before replication and compaction."""
    output_records: int
    """Decisions, detections and all other published records."""
    output_bytes: int
    verdict_bytes: int
    """The part that agents read: a verdict for every proposal, about half of the events."""
    empty_start_s: float
    """From the start of the workers to a verdict from every partition, without sessions."""
    start_s: float
    """Like `empty_start_s`, with all sessions in the changelog."""
    recovered_rss_bytes: int

    @property
    def recovery_s(self) -> float:
        """The part of the startup time that the sessions add."""
        return self.start_s - self.empty_start_s


@dataclass(frozen=True)
class _Used:
    """Seconds so far: wall time, processor time of the workers and of the broker."""

    at_s: float
    workers_s: float
    broker_s: float


def measure(
    cluster: Cluster,
    children: Children,
    *,
    workers: int,
    sessions: int,
    events: int,
    seed: int,
    at_most_s: float,
) -> Grown:
    """Start workers, send sessions, then events, then restart them. Raises TooMuch."""
    name = f"growth{workers}x{sessions}"
    topics, changelog = Topics(f"{name}."), f"{name}-sessions-changelog"
    cluster.make_topics(topics, changelog)
    cores = sorted(os.sched_getaffinity(0))
    pinned_to = [cores[number % len(cores)] for number in range(workers)]
    own_cores = len(cores) > workers
    load = Load(
        events=sessions + events,
        sessions=sessions,
        start_ms=time.time_ns() // 1_000_000 - 12 * 3_600_000,
        seed=seed,
        await_verdicts=True,
    )
    made = generate(load)
    watched = Group(cluster.bootstrap, name, [topics.actions])
    with _elsewhere(cluster.kafka.pid, cores[workers:] if own_cores else cores):
        with _started(cluster, children, topics, name=name, pinned_to=pinned_to, label="empty") as (
            group,
            empty_start_s,
        ):
            empty_rss_bytes = _sum_of(processes.rss_bytes, group)
            begun = _used(cluster, group)
            size = cluster.fill(topics.actions, islice(made, sessions))
            _drain(watched, group, at_most_s)
            before = _used(cluster, group)
            size += cluster.fill(topics.actions, list(made))
            filled_at_s, left = time.perf_counter(), watched.end() - watched.committed()
            _drain(watched, group, at_most_s)
            after = _used(cluster, group)
            rss_bytes, peak = _sum_of(processes.rss_bytes, group), _sum_of(processes.peak_rss_bytes, group)
        with _started(cluster, children, topics, name=name, pinned_to=pinned_to, label="again") as (group, start_s):
            recovered_rss_bytes = _sum_of(processes.rss_bytes, group)
    watched.close()
    outputs = [topic for topic in topics.all if topic != topics.actions]
    return Grown(
        workers=workers,
        sessions=sessions,
        events=events,
        event_bytes=size / load.events,
        pinned_to=pinned_to,
        own_cores=own_cores,
        cpu_us_per_event=(after.workers_s - before.workers_s) * 1e6 / events,
        cpu_us_per_new_session=(
            (before.workers_s - begun.workers_s) * 1e6 / sessions if sessions >= _FEW_SESSIONS else None
        ),
        events_per_s=left / (after.at_s - filled_at_s) if own_cores and left > events / 2 else None,
        broker_cpu_us_per_event=(after.broker_s - before.broker_s) * 1e6 / events,
        empty_rss_bytes=empty_rss_bytes,
        rss_bytes=rss_bytes,
        peak_rss_bytes=peak,
        changelog_records=_records(cluster, name, [changelog]),
        changelog_bytes=cluster.log_bytes(changelog),
        output_records=_records(cluster, name, outputs),
        output_bytes=sum(map(cluster.log_bytes, outputs)),
        verdict_bytes=cluster.log_bytes(topics.interventions),
        empty_start_s=empty_start_s,
        start_s=start_s,
        recovered_rss_bytes=recovered_rss_bytes,
    )


@contextmanager
def _started(
    cluster: Cluster, children: Children, topics: Topics, *, name: str, pinned_to: Sequence[int], label: str
) -> Iterator[tuple[list[Child], float]]:
    """Yield the workers once each has partitions and every partition has answered, and the seconds until then."""
    probe = verdicts.Probe(cluster.bootstrap, topics, label)
    began = time.perf_counter()
    group: list[Child] = []
    try:
        for number, core in enumerate(pinned_to):
            own = ("--instance-id", f"{name}-{number}")
            child = processes.start_worker(
                children, f"{name}-{label}-{number}", cluster.bootstrap, topics.prefix, name, *own
            )
            group.append(child)
            os.sched_setaffinity(child.pid, {core})  # later threads inherit it
        probe.wait(group)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap}, logger=QUIET)
        shared = partial(_shared, admin, name, len(group))
        processes.wait_until(group[0], shared, "partitions for each worker", within_s=_READY_WITHIN_S)
        yield group, time.perf_counter() - began
    finally:
        for child in group:
            processes.stop(child)


def _shared(admin: AdminClient, name: str, workers: int) -> bool:
    """Return whether each of this many workers has partitions."""
    try:
        found = admin.describe_consumer_groups([name])[name].result()
    except KafkaException:
        return False
    having = [member for member in found.members if member.assignment and member.assignment.topic_partitions]
    return found.state == ConsumerGroupState.STABLE and len(having) == workers


def _drain(watched: Group, group: Sequence[Child], at_most_s: float) -> None:
    """Wait until everything is committed. Raises TooMuch."""
    end, deadline = watched.end(), time.monotonic() + at_most_s
    while (done := watched.committed()) < end:
        for child in group:
            child.require_running()
        if time.monotonic() > deadline:
            raise TooMuch(f"expected {end:,} events done within {at_most_s:.0f} s, got {done:,}")
        if (left := available_bytes()) is not None and left < _LEFT_BYTES:
            raise TooMuch(f"expected {_LEFT_BYTES / 2**30:g} GiB of memory left, got less after {done:,} events")
        time.sleep(_ASK_EVERY_S)


def _used(cluster: Cluster, group: Sequence[Child]) -> _Used:
    workers_s = sum(processes.cpu_s(child.pid) or 0.0 for child in group)
    return _Used(time.perf_counter(), workers_s, processes.cpu_s(cluster.kafka.pid) or 0.0)


def _sum_of(size: Callable[[int], int | None], group: Sequence[Child]) -> int:
    return sum(size(child.pid) or 0 for child in group)


def _records(cluster: Cluster, group: str, topics: Sequence[str]) -> int:
    watched = Group(cluster.bootstrap, group, topics)
    records = watched.end()
    watched.close()
    return records


@contextmanager
def _elsewhere(broker: int, cores: Sequence[int]) -> Iterator[None]:
    """Pin the broker and this process to these cores; restore their affinity afterwards."""
    own = os.sched_getaffinity(0)
    _pin(broker, cores)
    _pin(os.getpid(), cores)
    try:
        yield
    finally:
        _pin(broker, own)
        _pin(os.getpid(), own)


def _pin(pid: int, cores: Iterable[int]) -> None:
    """Pin every thread of a process: the system call affects one thread."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:  # it has ended
            continue
