"""`/api/v1/protection`: whether agents are protected."""

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
    """One step of an operator."""

    text: str
    command: str
    """A shell command; empty: none."""


class ProtectionProblem(BaseModel):
    """A present problem."""

    part: Part
    urgency: Urgency
    since: str
    title: str
    what: str
    partitions: list[Partitions]
    """The partitions without progress; empty if the problem does not concern partitions."""
    steps: list[ProtectionStep]
    """The first steps."""
    runbook: str
    """The full instructions, in haltline's repository."""


class Protection(BaseModel):
    """Whether agents are protected."""

    ok: bool
    """There are no problems."""
    looked_at: str
    """The last check that the broker answered."""
    problems: list[ProtectionProblem]
    """The worst first."""


@router.get("/protection")
def now(request: Request, _: Viewer) -> Protection:
    """The present problems: workers without progress, a broker without answer, a canary that was not stopped ..."""
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
