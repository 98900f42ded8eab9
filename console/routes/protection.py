"""Whether agents are protected now."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from haltline.console import protection
from haltline.console.context import Viewer
from haltline.console.http.strict_json import StrictRoute
from haltline.console.protection import Part, Urgency
from haltline.console.protection_watch import ProtectionWatch
from haltline.schemas.record import rfc3339

router = APIRouter(prefix="/api/v1", tags=["fleet"], route_class=StrictRoute)


class Partitions(BaseModel):
    """Partitions of one topic."""

    topic: str
    partitions: list[int]


class ProtectionStep(BaseModel):
    """One thing to do."""

    text: str
    command: str
    """For a shell; empty: none."""


class ProtectionProblem(BaseModel):
    """Something that is wrong now."""

    part: Part
    urgency: Urgency
    since: str
    title: str
    what: str
    partitions: list[Partitions]
    """Those that stand still; empty where the problem is not one of partitions."""
    steps: list[ProtectionStep]
    """What to do first."""
    runbook: str
    """The rest, in haltline's repository."""


class Protection(BaseModel):
    """Whether agents are protected."""

    ok: bool
    """Nothing is wrong."""
    looked_at: str
    """The last look at the broker that was answered."""
    problems: list[ProtectionProblem]
    """The worst first."""


@router.get("/protection")
def now(request: Request, _: Viewer) -> Protection:
    """What is wrong now: workers that stand still, a broker that does not answer, a canary that was not stopped ..."""
    watch: ProtectionWatch = request.app.state.protection
    problems = [_shown(problem) for problem in watch.problems()]
    return Protection(ok=not problems, looked_at=_moment(watch.looked_s), problems=problems)


def _shown(problem: protection.Problem) -> ProtectionProblem:
    return ProtectionProblem(
        part=problem.part,
        urgency=problem.urgency,
        since=_moment(problem.since_s),
        title=problem.title,
        what=problem.what,
        partitions=[Partitions(topic=topic, partitions=list(numbers)) for topic, numbers in problem.partitions.items()],
        steps=[ProtectionStep(text=step.text, command=step.command) for step in problem.steps],
        runbook=f"deploy/runbooks/{problem.runbook}.md",
    )


def _moment(epoch_s: float) -> str:
    return rfc3339(round(epoch_s * 1000))
