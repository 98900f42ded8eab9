"""Partitions of a source side by side in several processes, as workers of one group have them.

What a worker decides follows from the records of one partition number of its topics alone, so sharing them out changes
nothing. What looks across sessions is in the log as signals, each on the partition of what it is about.
"""

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from typing import Final

from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.engine.plugins import installed
from haltline.streams.replay.records import Reader, Source, Span
from haltline.streams.replay.replay_driver import ProcessedRecords, ReplayFilter, process_records
from haltline.streams.replay.replay_worker import InForce, Replay

_REPORT_EVERY: Final = 500
_LOOK_EVERY_S: Final = 0.2


@dataclass(frozen=True)
class _Job:
    """All that a process needs to know; it has its own detectors."""

    reader: Reader
    spans: Sequence[Span]
    topics: Topics
    partitions: int
    policies: Sequence[tuple[int, Policy]]
    record_filter: ReplayFilter
    causes: frozenset[str]


def side_by_side(
    source: Source,
    reader: Reader,
    in_force: Sequence[InForce],
    *,
    record_filter: ReplayFilter,
    causes: Collection[str],
    processes: int,
    step: Callable[[], object],
) -> list[ProcessedRecords]:
    """The result of each share. Raises what reading raises, in whatever process."""
    policies = [(one.since_ms, one.core.policy) for one in in_force]
    jobs = [
        _Job(reader, spans, source.topics, source.partitions, policies, record_filter, frozenset(causes))
        for spans in shares(source.spans, processes)
    ]
    context = multiprocessing.get_context("spawn")
    count = context.Value("q", 0)
    with context.Pool(max(1, len(jobs)), _begin, (count,)) as pool:
        waiting = [pool.apply_async(_run, (job,)) for job in jobs]
        reported = 0
        for one in waiting:
            while not one.ready():
                one.wait(_LOOK_EVERY_S)
                for _ in range(count.value - reported):
                    step()
                    reported += 1
        return [one.get() for one in waiting]


def shares(spans: Sequence[Span], processes: int) -> list[list[Span]]:
    """So many lists of about the same length, each with all topics of its partitions; none is empty."""
    counts: Counter[int] = Counter()
    for span in spans:
        counts[span.partition] += span.count
    loads: list[tuple[int, int]] = [(0, number) for number in range(processes)]
    owner: dict[int, int] = {}
    for partition, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        load, number = min(loads)
        loads[number] = (load + count, number)
        owner[partition] = number
    found = [[span for span in spans if owner[span.partition] == number] for number in range(processes)]
    return [share for share in found if any(span.count for span in share)]


_done: "Synchronized[int] | None" = None  # of this process of a pool: how many records all have taken in


def _begin(done: "Synchronized[int]") -> None:
    global _done  # noqa: PLW0603  # a pool gives its processes what they share only so
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who began it ends it


class _Steps:
    """Counts for all; looks at the shared number now and then only."""

    def __init__(self) -> None:
        self._waiting = 0

    def __call__(self) -> None:
        self._waiting += 1
        if self._waiting == _REPORT_EVERY and _done is not None:
            with _done.get_lock():
                _done.value += self._waiting
            self._waiting = 0


def _run(job: _Job) -> ProcessedRecords:
    plugins = installed()
    in_force = [InForce(since_ms, Core(policy, plugins)) for since_ms, policy in job.policies]
    replay = Replay(in_force, topics=job.topics, partitions=job.partitions)
    records = job.reader.read(job.spans)
    return process_records(
        records, replay, job.topics, record_filter=job.record_filter, causes=job.causes, step=_Steps()
    )
