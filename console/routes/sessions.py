"""Sessions: the list, the story of one, and one evaluated again step by step."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel
from sqlalchemy import Connection, Select, case, func, select

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.routing import NO_SUCH_ID, Limit, Page, Skip, StrictRoute, answer
from haltline.console.ids import session_in
from haltline.console.read_model import tables
from haltline.console.read_model.history import core_of, events_of, published_policy
from haltline.console.read_model.text_search import matching
from haltline.interventions.levels.default_levels import cause_of_rule
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.record import rfc3339
from haltline.streams.engine.core import Core, Position, SessionState

router = APIRouter(prefix="/api/v1", tags=["sessions"], route_class=StrictRoute)

_NO_PROGRESS = "no_progress"


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
    frames = list(_frames(core_of(policy), events))
    rules = sorted({rule for frame in frames for rule in frame.near if cause_of_rule(rule) == _NO_PROGRESS})
    return Frames(policy=policy.name, version=policy.version, progress=rules, frames=frames)


def _frames(core: Core, events: Sequence[ActionEvent]) -> Iterator[Frame]:
    """Replay a session alone: rules across sessions and operators' commands are left out."""
    state: SessionState | None = None
    for number, event in enumerate(events):
        outcome = core.on_event(state, event, Position("recorded", 0, number))
        state, decision = outcome.state, outcome.decision
        yield Frame(
            event_id=event.event_id,
            time_ms=event.time,
            near=core.near(state, event),
            findings=[detection.finding.detector for detection in outcome.detections],
            irreversible=[f"{one.effect.value} {one.target}" for one in outcome.irreversible],
            level=None if decision is None else decision.level.value,
            rule=None if decision is None else decision.detector,
            killed=state.control.killed is not None,
        )


_CAUSES = {
    topic: place
    for place, topic in enumerate(
        ("commands", "actions", "signals", "detections", "interventions", "control", "feedback")
    )
}
"""The effects of an event have its time: at equal times, the cause comes first."""

_LEVELS = {level.rank: level.value for level in Level}


class Session(BaseModel):
    """A session's summary."""

    session_id: str
    agent_id: str
    mission_id: str | None
    parent_session_id: str | None
    goal: str
    first: str
    last: str
    events: int
    interventions: int
    level: str
    """The highest level decided, except requests for approval."""
    asks: int
    """Decisions that requested a person's approval."""
    cost_usd: float
    ended: bool
    state: str | None
    """The restriction in force for it."""
    targets_until: str | None
    """The session has more targets than a search covers: those before this one in alphabetical order are found, the
    others are not; null: all are found."""


class SessionList(Page):
    """A page of sessions, the latest first."""

    sessions: list[Session]


class Step(BaseModel):
    """One record of a story."""

    time: str
    topic: str
    partition: int
    offset: int
    kind: str
    summary: str
    record: dict[str, Any] | str
    """The record; a text if it could not be parsed."""


class Story(Page):
    """A session with all its records, in order."""

    session: Session
    steps: list[Step]


def _columns() -> Any:
    sessions, control = tables.sessions, tables.control
    on = (control.c.scope == "session") & (control.c.id == sessions.c.session_id)
    return select(sessions, control.c.state).outerjoin(control, on)


def _shown(connection: Connection, rows: Select[Any]) -> list[Session]:
    """The sessions of these rows, in their order; interventions are counted of those that are shown."""
    chosen, interventions = rows.subquery(), tables.interventions.c
    counted = (interventions.session_id == chosen.c.session_id, interventions.hidden.is_(False))
    number = select(func.count()).where(*counted).scalar_subquery().label("interventions")
    ordered = select(chosen, number).order_by(chosen.c.last_ms.desc(), chosen.c.session_id)
    return [_session(row) for row in connection.execute(ordered).mappings()]


def _session(row: Any) -> Session:
    fields = dict(row)
    return Session(
        **{name: fields[name] for name in Session.model_fields if name in fields and name != "cost_usd"},
        first=rfc3339(fields["first_ms"]),
        last=rfc3339(fields["last_ms"]),
        level=_LEVELS[fields["hardest"]],
        cost_usd=round(fields["cost_usd"], 9),
    )


@router.get("/sessions", response_model=SessionList)
def list_sessions(
    here: ContextDep,
    _: Viewer,
    agent_id: str | None = None,
    mission_id: str | None = None,
    level: Annotated[Level | None, Query(description="At least this level was decided.")] = None,
    state: Annotated[str | None, Query(description="What is in force for it now, such as killed.")] = None,
    search: Annotated[
        str | None, Query(max_length=200, description="A part of the id, the goal, the agent, the mission or a target.")
    ] = None,
    skip: Skip = 0,
    limit: Limit = 50,
) -> Response:
    """The sessions that match every filter, the latest first."""
    table = tables.sessions.c
    columns = _columns()
    if agent_id is not None:
        columns = columns.where(table.agent_id == agent_id)
    if mission_id is not None:
        columns = columns.where(table.mission_id == mission_id)
    if level is not None:
        columns = columns.where(table.hardest >= level.rank)
    if state is not None:
        columns = columns.where(tables.control.c.state == state)
    if search:
        columns = columns.where(table.n.in_(matching(here.engine.dialect.name, tables.sessions, search)))
    with here.engine.connect() as connection:
        total = connection.execute(columns.with_only_columns(func.count())).scalar_one()
        latest = columns.order_by(table.last_ms.desc(), table.session_id).offset(skip).limit(limit)
        found = _shown(connection, latest)
    return answer(SessionList(sessions=found, total=total, skip=skip, limit=limit))


@router.get("/sessions/{session_id:path}", response_model=Story, responses=NO_SUCH_ID)
def story(
    here: ContextDep,
    _: Viewer,
    session_id: str,
    skip: Skip = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> Response:
    """A session and its story: events, findings, decisions, feedback and commands. The id may be shortened."""
    table = tables.records.c
    session_id = session_in(here.kept, session_id)
    with here.engine.connect() as connection:
        (session,) = _shown(connection, _columns().where(tables.sessions.c.session_id == session_id))
        # Incidents are requested separately: a row for each trip adds nothing here.
        held = (table.session_id == session_id) & (table.topic != "incidents")
        total = connection.execute(select(func.count()).select_from(tables.records).where(held)).scalar_one()
        order = (table.time_ms, case(_CAUSES, value=table.topic, else_=len(_CAUSES)), table.topic, table.offset)
        steps = connection.execute(
            select(tables.records).where(held).order_by(*order).offset(skip).limit(limit)
        ).mappings()
        shown = [_step(one) for one in steps]
    return answer(Story(session=session, steps=shown, total=total, skip=skip, limit=limit))


def _step(row: Any) -> Step:
    try:
        record = orjson.loads(row["body"]) if row["body"] else ""
    except orjson.JSONDecodeError:
        record = row["body"]
    return Step(
        time=rfc3339(row["time_ms"]),
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        kind=row["kind"],
        summary=row["summary"],
        record=record,
    )
