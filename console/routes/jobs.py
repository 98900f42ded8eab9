"""`/api/v1/jobs`: replays and backtests of the running topics, as jobs."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Response
from pydantic import BaseModel, Field

from haltline.console.context import ContextDep, OperatorClient, Viewer
from haltline.console.http.routing import NO_SUCH_ID, StrictRoute
from haltline.console.jobs import Job, JobKind, JobState, TooMany
from haltline.console.routes.policies import read_document
from haltline.schemas.record import Id, JsonObject, rfc3339
from haltline.streams.replay.time_range import BadMoment, parse_range

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], route_class=StrictRoute)

Moment = Annotated[str, Field(max_length=64, examples=["-1d", "2026-01-01T10:00:00Z"])]
Doc = Annotated[str | JsonObject | None, Field(examples=["rules:\n  destructive_repeat:\n    mode: warn\n"])]


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
def create(here: ContextDep, who: OperatorClient, order: JobRequest, response: Response) -> JobStatus:
    """Queues a replay or a backtest; one runs at a time."""
    policy = None if order.policy is None else read_document(order.policy)
    against = None if order.against is None else read_document(order.against)
    job = Job(
        kind=order.kind,
        by=who.name,
        since=order.since,
        until=order.until,
        policy=policy,
        against=against,
        sessions=tuple(order.sessions),
    )
    try:
        parse_range(job.since, job.until, job.created_ms)
        here.jobs.add(job)
    except BadMoment as bad:
        raise HTTPException(400, str(bad)) from None
    except TooMany as full:
        raise HTTPException(409, str(full)) from None
    response.headers["Location"] = f"/api/v1/jobs/{job.job_id}"
    return _shown(job)


@router.get("")
def jobs(here: ContextDep, _: Viewer) -> list[JobStatus]:
    """The last jobs, the latest first, without their results."""
    return [_shown(job).model_copy(update={"result": None}) for job in here.jobs.all()]


@router.get("/{job_id}", responses=NO_SUCH_ID)
def job(here: ContextDep, _: Viewer, job_id: str) -> JobStatus:
    """One job."""
    return _shown(_find(here, job_id))


@router.delete("/{job_id}", responses=NO_SUCH_ID)
def cancel(here: ContextDep, _: OperatorClient, job_id: str) -> JobStatus:
    """Cancels a waiting or running job."""
    found = _find(here, job_id)
    found.cancelled.set()
    return _shown(found)


def _find(here: ContextDep, job_id: str) -> Job:
    found = here.jobs.find(job_id)
    if found is None:
        raise HTTPException(404, f"job {job_id}: expected one of this console, got none of this id")
    return found


def _shown(job: Job) -> JobStatus:
    ended_at = None if job.ended_ms is None else rfc3339(job.ended_ms)
    return JobStatus(**vars(job) | {"id": job.job_id, "created_at": rfc3339(job.created_ms), "ended_at": ended_at})
