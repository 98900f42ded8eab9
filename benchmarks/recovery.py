"""How long a worker takes to have its sessions back, and what they cost in memory."""

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import processes
from benchmarks.cluster import PARTITIONS, QUIET, Cluster, Group
from benchmarks.load import Load, generate
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode
from haltline.streams.children import Children

_EVENTS_PER_SESSION = 10
_DRAIN_WITHIN_S = 900.0
_ANSWER_WITHIN_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """One restart."""

    sessions: int
    changelog_records: int
    """What there is to read; compaction makes it fewer with time."""
    changelog_bytes: int
    start_s: float
    """From the start of the process to a verdict from every partition."""
    empty_start_s: float
    """The same with nothing to recover: Python's imports, joining the group."""
    rss_bytes: int | None
    """Once recovered: the encoded states only; live objects are made when their events come."""
    peak_rss_bytes: int | None

    @property
    def recovery_s(self) -> float:
        """What the sessions add to a start."""
        return self.start_s - self.empty_start_s


def measure(cluster: Cluster, children: Children, sessions: int) -> Recovery:
    """Have a worker make the states of so many sessions, stop it, and start it again."""
    prefix = f"recover{sessions}."
    group = f"recover{sessions}"
    topics = Topics(prefix)
    changelog = f"{group}-sessions-changelog"
    cluster.make_topics(topics, changelog)
    empty_start_s = _start(cluster, children, topics, group, "empty").seconds

    now_ms = time.time_ns() // 1_000_000
    events = sessions * _EVENTS_PER_SESSION
    load = Load(events=events, sessions=sessions, start_ms=now_ms - 3_600_000, seconds_between=5.0, prefix=prefix)
    cluster.fill(topics.actions, generate(load))
    watched = Group(cluster.bootstrap, group, [topics.actions])
    end = watched.end()
    worker = processes.start(
        children, f"{group}-fill", processes.WORKER, processes.worker_arguments(cluster.bootstrap, prefix, group)
    )
    processes.wait_until(worker, lambda: watched.committed() == end, "lag zero", within_s=_DRAIN_WITHIN_S)
    processes.stop(worker)
    watched.close()

    states = Group(cluster.bootstrap, group, [changelog])
    records = states.end()
    states.close()
    started = _start(cluster, children, topics, group, "again")
    return Recovery(
        sessions=sessions,
        changelog_records=records,
        changelog_bytes=cluster.log_bytes(changelog),
        start_s=started.seconds,
        empty_start_s=empty_start_s,
        rss_bytes=started.rss_bytes,
        peak_rss_bytes=started.peak_rss_bytes,
    )


@dataclass(frozen=True)
class _Started:
    seconds: float
    rss_bytes: int | None
    peak_rss_bytes: int | None


def _start(cluster: Cluster, children: Children, topics: Topics, group: str, label: str) -> _Started:
    """Start a worker beside an event for each partition, and stop it when each has its verdict."""
    waiting = _ask(cluster.bootstrap, topics, label)
    answers = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "recovery-probe"}, logger=QUIET)
    ends = [TopicPartition(topics.interventions, number) for number in range(PARTITIONS)]
    for end in ends:
        bounds = answers.get_watermark_offsets(end, timeout=10)
        if bounds is None:
            raise RuntimeError(f"{topics.interventions}: expected its end, got none")
        end.offset = bounds[1]
    answers.assign(ends)
    began = time.perf_counter()
    worker = processes.start(
        children,
        f"{group}-{label}",
        processes.WORKER,
        processes.worker_arguments(cluster.bootstrap, topics.prefix, group),
    )
    while waiting:
        worker.require_running()
        if time.perf_counter() - began > _ANSWER_WITHIN_S:
            raise RuntimeError(f"{group}: expected a verdict from every partition in {_ANSWER_WITHIN_S:.0f} s, got not")
        message = answers.poll(0.1)
        if message is not None and message.error() is None:
            waiting.discard(decode(Decision, message.value()).event_id)
    seconds = time.perf_counter() - began
    started = _Started(seconds, processes.rss_bytes(worker.pid), processes.peak_rss_bytes(worker.pid))
    answers.close()
    processes.stop(worker)
    return started


def _ask(bootstrap: str, topics: Topics, label: str) -> set[str]:
    """Produce one event that awaits a verdict to each partition; the ids of the events."""
    by_partition = {partition_of(name, PARTITIONS): name for name in (f"probe-{label}-{n}" for n in range(64))}
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"}, logger=QUIET)
    for session in by_partition.values():
        event = ActionEvent(
            event_id=f"{session}-event",
            kind=Kind.PROPOSED,
            session_id=session,
            time=time.time_ns() // 1_000_000,
            action="read_file",
            call_id=f"{session}-call",
            await_verdict=True,
        )
        producer.produce(topics.actions, key=session.encode(), value=event.to_json())
    if producer.flush(30):
        raise RuntimeError(f"{topics.actions}: expected the probes delivered in 30 s, got fewer")
    return {f"{session}-event" for session in by_partition.values()}
