"""Whether agents are protected now."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from haltline.console import protection
from haltline.console.context import Viewer
from haltline.console.http.examples import like
from haltline.console.http.strict_json import StrictRoute
from haltline.console.protection import Part, Urgency
from haltline.console.protection_watch import ProtectionWatch
from haltline.schemas.record import rfc3339

router = APIRouter(prefix="/api/v1", tags=["fleet"], route_class=StrictRoute)


class Partitions(BaseModel):
    """Partitions of one topic."""

    model_config = like(topic="haltline.actions", partitions=[0, 3])

    topic: str
    partitions: list[int]


class ProtectionStep(BaseModel):
    """One thing to do."""

    model_config = like(text="See which group is behind, and what else is wrong.", command="haltline doctor")

    text: str
    command: str
    """For a shell; empty: none."""


class ProtectionProblem(BaseModel):
    """Something that is wrong now."""

    model_config = like(
        part="workers",
        urgency="critical",
        since="2026-01-01T12:00:12.000Z",
        title="Protection is down",
        what="Records wait in partitions 0, 3 of haltline.actions, and no worker processes them.",
        partitions=[{"topic": "haltline.actions", "partitions": [0, 3]}],
        steps=[{"text": "See which group is behind, and what else is wrong.", "command": "haltline doctor"}],
        runbook="deploy/runbooks/HaltlineNoProgress.md",
    )

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

    ok: Annotated[bool, Field(examples=[False])]
    """Nothing is wrong."""
    looked_at: Annotated[str, Field(examples=["2026-01-01T12:00:52.000Z"])]
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
