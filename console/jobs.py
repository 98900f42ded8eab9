"""Replays and backtests of the running topics, one at a time, in a thread of the console.

The queue is bounded; the last results are kept until the console ends.
"""

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from haltline.console.settings import ConsoleSettings
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.engine.plugins import installed
from haltline.streams.replay.backtest import Result, related, together
from haltline.streams.replay.diff import replay_and_compare
from haltline.streams.replay.history import sessions_of
from haltline.streams.replay.kafka_range import KafkaRange
from haltline.streams.replay.policies import one, published
from haltline.streams.replay.time_range import parse_range
from haltline.streams.replay.whatif import SAME, change_of, totals_of

log: Final = logging.getLogger("haltline.console")

MAX_RECORDS: Final = 1_000_000
MAX_SHOWN: Final = 1000
"""The most sessions in a result."""
_WAITING: Final = 8
_KEPT: Final = 50
_REST_EVERY: Final = 50
"""After this many records, the thread yields to the other threads of this process."""


class JobKind(StrEnum):
    """The kind of a job."""

    BACKTEST = "backtest"
    """The decisions of a policy, compared with another one's."""
    REPLAY = "replay"
    """The present decisions of a policy, compared with the recorded ones."""


class JobState(StrEnum):
    """The state of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TooMany(Exception):
    """The queue of jobs is full."""


class _Cancelled(Exception):
    pass


@dataclass(kw_only=True)
class Job:
    """One job. Changed by the thread that runs it."""

    kind: JobKind
    by: str
    since: str
    until: str
    policy: Policy | None
    """None: the published one."""
    against: Policy | None = None
    sessions: tuple[str, ...] = ()
    """Empty: all of the range."""
    job_id: str = field(default_factory=lambda: f"job_{uuid.uuid4().hex}")
    state: JobState = JobState.WAITING
    records: int = 0
    """The number read so far."""
    of: int = 0
    """The number in all."""
    created_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    ended_ms: int | None = None
    error: str | None = None
    result: dict[str, Any] | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)


class Jobs:
    """The jobs of one console."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, "haltline-jobs")

    def add(self, job: Job) -> None:
        """Add a job to the queue. Raises TooMany."""
        with self._lock:
            if sum(one.state is JobState.WAITING for one in self._jobs.values()) >= _WAITING:
                raise TooMany(f"jobs: expected fewer than {_WAITING} that wait, got one more")
            self._jobs[job.job_id] = job
            while len(self._jobs) > _KEPT:
                self._jobs.popitem(last=False)
        self._thread.submit(self._run, job)

    def find(self, job_id: str) -> Job | None:
        """A job by id; None: unknown, or dropped."""
        with self._lock:
            return self._jobs.get(job_id)

    def all(self) -> list[Job]:
        """All jobs, the latest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def close(self) -> None:
        """Stop the running job, and wait for it."""
        for job in self.all():
            job.cancelled.set()
        self._thread.shutdown()

    def _run(self, job: Job) -> None:
        try:
            job.state = JobState.RUNNING
            _require_not_cancelled(job)
            job.result = (_backtest if job.kind is JobKind.BACKTEST else _replay)(self._settings, job)
            job.state = JobState.DONE
        except _Cancelled:
            job.state = JobState.CANCELLED
        except Exception as failure:
            # A missing range or an unreachable broker: the job's client gets the reason, and the next job runs.
            log.warning("job %s of %s failed: %s", job.job_id, job.by, failure)
            job.error, job.state = str(failure)[:2000] or repr(failure), JobState.FAILED
        job.ended_ms = time.time_ns() // 1_000_000


def _require_not_cancelled(job: Job) -> None:
    if job.cancelled.is_set():
        raise _Cancelled


def _opened(settings: ConsoleSettings, job: Job) -> KafkaRange:
    start, end = parse_range(job.since, job.until, job.created_ms)
    found = KafkaRange(settings.bootstrap, settings.topics, start, end, client=settings.client)
    job.of = sum(span.count for span in found.spans)
    if job.of > MAX_RECORDS:
        found.close()
        raise ValueError(f"the range: expected at most {MAX_RECORDS} records, got {job.of}; see: haltline {job.kind}")
    return found


def _step(job: Job) -> Callable[[], None]:
    def step() -> None:
        job.records += 1
        _require_not_cancelled(job)
        if job.records % _REST_EVERY == 0:
            time.sleep(0)

    return step


def _replay(settings: ConsoleSettings, job: Job) -> dict[str, Any]:
    with _opened(settings, job) as found:
        plugins = installed()
        in_force = (
            one(job.policy, plugins) if job.policy is not None else published(found.policies(), Policy().name, plugins)
        )
        result = replay_and_compare(found, in_force, sessions=job.sessions, step=_step(job)).to_dict()
    return result | {"sessions": result["sessions"][:MAX_SHOWN]}


def _backtest(settings: ConsoleSettings, job: Job) -> dict[str, Any]:
    with _opened(settings, job) as found:
        sessions = sessions_of(found, _step(job))
        policy = job.policy or published(found.policies(), Policy().name, installed())[-1].core.policy
    if job.sessions:
        sessions = [session for session in sessions if session.session_id in job.sessions]
    groups = related(sessions)

    def results_of(candidate: Policy) -> list[Result]:
        core = Core(candidate, installed())
        made: list[Result] = []
        for group in groups:
            _require_not_cancelled(job)
            made += together(core, group)
            time.sleep(0)
        return made

    first = results_of(policy)
    report: dict[str, Any] = {"totals": totals_of(first).to_dict()}
    if job.against is None:
        return report | {"sessions": [result.to_dict() for result in first if result.findings][:MAX_SHOWN]}
    second = results_of(job.against)
    changed = [
        {"change": change_of(new, old), "session_id": new.session_id, "new": new.to_dict(), "old": old.to_dict()}
        for new, old in zip(first, second, strict=True)
    ]
    return report | {
        "against": totals_of(second).to_dict(),
        "sessions": [one for one in changed if one["change"] != SAME][:MAX_SHOWN],
    }
