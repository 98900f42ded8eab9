"""A session evaluated again, step by step."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.json_response import NO_SUCH_ID
from haltline.console.http.strict_json import StrictRoute
from haltline.console.read_model.history import core_of, events_of, published_policy, reevaluated_session
from haltline.interventions.levels.default_levels import cause_of_rule

_NO_PROGRESS = "no_progress"

router = APIRouter(prefix="/api/v1", tags=["sessions"], route_class=StrictRoute)


class Frame(BaseModel):
    """The result of one event under the policy in force."""

    event_id: str
    time_ms: int
    near: dict[str, float]
    """How close each rule is to a finding after the event, 0 to 1."""
    findings: list[str]
    """The rules with a finding at this event."""
    irreversible: list[str]
    """Effect and target of each irreversible act that it attempts."""
    level: str | None
    rule: str | None
    killed: bool


class Frames(BaseModel):
    """A session evaluated again, alone and without operators' acts."""

    policy: str
    version: int
    progress: list[str]
    """The rules of these frames that measure progress: the closer to a finding, the less progress."""
    frames: list[Frame]


@router.get("/replay", responses=NO_SUCH_ID)
def replay(
    here: ContextDep,
    _: Viewer,
    session_id: Annotated[str, Query(min_length=1, max_length=256)],
    limit: Annotated[int, Query(ge=1, le=5000)] = 2000,
) -> Frames:
    """The result of each event of a session under the policy in force, and how close each rule is after it."""
    events = events_of(here.engine, session_id, limit)
    if not events:
        raise HTTPException(404, f"session {session_id}: expected one with events, got none of this id")
    policy = published_policy(here.settings)
    frames = [Frame(**one) for one in reevaluated_session(core_of(policy), events)]
    rules = sorted({rule for frame in frames for rule in frame.near if cause_of_rule(rule) == _NO_PROGRESS})
    return Frames(policy=policy.name, version=policy.version, progress=rules, frames=frames)
