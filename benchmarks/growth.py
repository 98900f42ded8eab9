"""How the worker's costs grow with workers and with sessions: processor time, memory, changelog, start.

Every default rule runs. Each session begins, then sessions take turns at random; both parts are measured by themselves,
by processor time. Each worker is pinned to one core. Its rate is only given where nothing else had to use that core.
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
"""With fewer, what the beginning of one costs is lost in what a worker does anyway."""

_LEFT_BYTES: Final = 2 * 2**30
"""Of memory, for the broker and whatever else runs."""
_READY_WITHIN_S: Final = 300.0
_ASK_EVERY_S: Final = 0.05


class TooMuch(RuntimeError):
    """The time was up, or the memory, before everything was done."""


@dataclass(frozen=True, kw_only=True)
class Grown:
    """One number of workers with one number of sessions. Bytes and processor time are sums over the workers."""

    workers: int
    sessions: int
    events: int
    """After each session's first."""
    event_bytes: float
    pinned_to: list[int]
    """The core of each worker."""
    own_cores: bool
    """Each worker's core was its own: broker and load had another one."""
    cpu_us_per_event: float
    """Of a session that has begun."""
    cpu_us_per_new_session: float | None
    """None: too few of them to say."""
    events_per_s: float | None
    """None: the workers shared their cores, so that it says nothing about workers."""
    broker_cpu_us_per_event: float
    """With producing and with what the workers write."""
    empty_rss_bytes: int
    """Of workers without sessions."""
    rss_bytes: int
    peak_rss_bytes: int
    changelog_records: int
    changelog_bytes: int
    """On the broker's disk, before replication; compaction makes it less with time."""
    output_records: int
    """Decisions, detections and everything else that was published."""
    output_bytes: int
    verdict_bytes: int
    """Of them what agents read: every proposal, about half of the events, awaits its verdict."""
    empty_start_s: float
    """From the start of the workers to a verdict from every partition, without sessions."""
    start_s: float
    """The same with all sessions in the changelog."""
    recovered_rss_bytes: int

    @property
    def recovery_s(self) -> float:
        """What the sessions add to a start."""
        return self.start_s - self.empty_start_s


@dataclass(frozen=True)
class _Used:
    """So far."""

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
    """Start workers, give them sessions, then events, then start them again. Raises TooMuch."""
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
    """The workers once each has partitions and every partition has answered; and after how many seconds that was."""
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
            os.sched_setaffinity(child.pid, {core})  # its threads, which come later, take it over
        probe.wait(group)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap}, logger=QUIET)
        shared = partial(_shared, admin, name, len(group))
        processes.wait_until(group[0], shared, "partitions for each worker", within_s=_READY_WITHIN_S)
        yield group, time.perf_counter() - began
    finally:
        for child in group:
            processes.stop(child)


def _shared(admin: AdminClient, name: str, workers: int) -> bool:
    """Whether each of so many workers has partitions."""
    try:
        found = admin.describe_consumer_groups([name])[name].result()
    except KafkaException:
        return False
    having = [member for member in found.members if member.assignment and member.assignment.topic_partitions]
    return found.state == ConsumerGroupState.STABLE and len(having) == workers


def _drain(watched: Group, group: Sequence[Child], at_most_s: float) -> None:
    """Until everything is committed."""
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
    """The broker and this process on these cores only, and on their own ones again afterwards."""
    own = os.sched_getaffinity(0)
    _pin(broker, cores)
    _pin(os.getpid(), cores)
    try:
        yield
    finally:
        _pin(broker, own)
        _pin(os.getpid(), own)


def _pin(pid: int, cores: Iterable[int]) -> None:
    """Every thread: the system's call is for one."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:  # it has ended
            continue
