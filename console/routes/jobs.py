"""`/api/v1/jobs`: replays and backtests of the running topics, as jobs."""

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel, Field

from haltline.console.context import OperatorClient, Viewer
from haltline.console.http.routing import NO_SUCH_ID, StrictRoute
from haltline.console.routes.policies import read_document
from haltline.console.settings import ConsoleSettings
from haltline.schemas.policy import Policy
from haltline.schemas.record import Id, JsonObject, rfc3339
from haltline.streams.engine.core import Core
from haltline.streams.engine.plugins import installed
from haltline.streams.replay.backtest import Result, related, together
from haltline.streams.replay.choice import Choice
from haltline.streams.replay.diff import replay_and_compare
from haltline.streams.replay.history import sessions_of
from haltline.streams.replay.kafka_range import KafkaRange
from haltline.streams.replay.policies import one, published
from haltline.streams.replay.time_range import BadMoment, parse_range
from haltline.streams.replay.whatif import SAME, change_of, totals_of

log: Final = logging.getLogger("haltline.console")

MAX_RECORDS: Final = 1_000_000
MAX_SHOWN: Final = 1000
"""The most sessions in a result."""
_WAITING: Final = 8
_KEPT: Final = 50
_REST_EVERY: Final = 50
"""After this many records, the thread yields to the other threads of this process."""


JobKind: TypeAlias = Literal["backtest", "replay"]
"""The kind of a job. `backtest`: the decisions of a policy, compared with another one's; `replay`: the present
decisions of a policy, compared with the recorded ones."""
JobState: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]
"""The state of a job."""


Moment = Annotated[str, Field(max_length=64, examples=["-1d", "2026-01-01T10:00:00Z"])]
Doc = Annotated[str | JsonObject | None, Field(examples=["rules:\n  destructive_repeat:\n    mode: warn\n"])]


class TooMany(Exception):
    """The queue of jobs is full."""


class _Cancelled(Exception):
    pass


class JobRequest(BaseModel):
    """A job to run."""

    kind: JobKind
    since: Moment = "-1d"
    """A time, or an age; empty: from the beginning of the topics."""
    until: Moment = ""
    policy: Doc = None
    """A document; null: the published one."""
    against: Doc = None
    """For a backtest: another document to compare with."""
    sessions: Annotated[list[Id], Field(max_length=1000)] = Field(default_factory=list)
    """Only these sessions; empty: all."""


@dataclass(kw_only=True)
class Job:
    """One job. Changed by the thread that runs it."""

    order: JobRequest
    by: str
    policy: Policy | None
    """None: the published one."""
    against: Policy | None
    job_id: str = field(default_factory=lambda: f"job_{uuid.uuid4().hex}")
    state: JobState = "waiting"
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
            if sum(one.state == "waiting" for one in self._jobs.values()) >= _WAITING:
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
            job.state = "running"
            _require_not_cancelled(job)
            job.result = (_backtest if job.order.kind == "backtest" else _replay)(self._settings, job)
            job.state = "done"
        except _Cancelled:
            job.state = "cancelled"
        except Exception as failure:
            # A missing range or an unreachable broker: the job's client gets the reason, and the next job runs.
            log.warning("job %s of %s failed: %s", job.job_id, job.by, failure)
            job.error, job.state = str(failure)[:2000] or repr(failure), "failed"
        job.ended_ms = time.time_ns() // 1_000_000


def _require_not_cancelled(job: Job) -> None:
    if job.cancelled.is_set():
        raise _Cancelled


def _opened(settings: ConsoleSettings, job: Job) -> KafkaRange:
    order = job.order
    start, end = parse_range(order.since, order.until, job.created_ms)
    found = KafkaRange(settings.bootstrap, settings.topics, start, end, client=settings.client)
    job.of = sum(span.count for span in found.spans)
    if job.of > MAX_RECORDS:
        found.close()
        raise ValueError(f"the range: expected at most {MAX_RECORDS} records, got {job.of}; see: haltline {order.kind}")
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
        chosen = Choice(sessions=frozenset(job.order.sessions))
        result = replay_and_compare(found, in_force, chosen, _step(job)).to_dict()
    return result | {"sessions": result["sessions"][:MAX_SHOWN]}


def _backtest(settings: ConsoleSettings, job: Job) -> dict[str, Any]:
    with _opened(settings, job) as found:
        sessions = sessions_of(found, _step(job))
        policy = job.policy or published(found.policies(), Policy().name, installed())[-1].core.policy
    if chosen := job.order.sessions:
        sessions = [session for session in sessions if session.session_id in chosen]
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
    report: dict[str, Any] = {"totals": asdict(totals_of(first))}
    if job.against is None:
        return report | {"sessions": [asdict(result) for result in first if result.findings][:MAX_SHOWN]}
    second = results_of(job.against)
    changed = [
        {"change": change_of(new, old), "session_id": new.session_id, "new": asdict(new), "old": asdict(old)}
        for new, old in zip(first, second, strict=True)
    ]
    return report | {
        "against": asdict(totals_of(second)),
        "sessions": [one for one in changed if one["change"] != SAME][:MAX_SHOWN],
    }


router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], route_class=StrictRoute)


async def _jobs_of(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


JobsDep = Annotated[Jobs, Depends(_jobs_of)]


class JobStatus(BaseModel):
    """The progress of a job, and its result."""

    id: str
    kind: JobKind
    state: JobState
    by: str
    created_at: str
    ended_at: str | None
    records: int
    of: int
    """Number of records in the range."""
    error: str | None
    result: dict[str, Any] | None
    """For a backtest the totals and each session with a finding; for a replay the equal and the different decisions.
    At most 1,000 sessions are named."""


@router.post("", status_code=202)
def create(all_jobs: JobsDep, who: OperatorClient, order: JobRequest, response: Response) -> JobStatus:
    """Queues a replay or a backtest; one runs at a time."""
    policy, against = (None if one is None else read_document(one) for one in (order.policy, order.against))
    job = Job(order=order, by=who.name, policy=policy, against=against)
    try:
        parse_range(job.order.since, job.order.until, job.created_ms)
        all_jobs.add(job)
    except BadMoment as bad:
        raise HTTPException(400, str(bad)) from None
    except TooMany as full:
        raise HTTPException(409, str(full)) from None
    response.headers["Location"] = f"/api/v1/jobs/{job.job_id}"
    return _shown(job)


@router.get("")
def jobs(all_jobs: JobsDep, _: Viewer) -> list[JobStatus]:
    """The last jobs, the latest first, without their results."""
    return [_shown(job).model_copy(update={"result": None}) for job in all_jobs.all()]


@router.get("/{job_id}", responses=NO_SUCH_ID)
def job(all_jobs: JobsDep, _: Viewer, job_id: str) -> JobStatus:
    """One job."""
    return _shown(_find(all_jobs, job_id))


@router.delete("/{job_id}", responses=NO_SUCH_ID)
def cancel(all_jobs: JobsDep, _: OperatorClient, job_id: str) -> JobStatus:
    """Cancels a waiting or running job."""
    found = _find(all_jobs, job_id)
    found.cancelled.set()
    return _shown(found)


def _find(all_jobs: Jobs, job_id: str) -> Job:
    found = all_jobs.find(job_id)
    if found is None:
        raise HTTPException(404, f"job {job_id}: expected one of this console, got none of this id")
    return found


def _shown(job: Job) -> JobStatus:
    ended_at = None if job.ended_ms is None else rfc3339(job.ended_ms)
    more = {"id": job.job_id, "kind": job.order.kind, "created_at": rfc3339(job.created_ms), "ended_at": ended_at}
    return JobStatus(**vars(job) | more)
