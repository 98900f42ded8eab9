"""The fleet as a whole: what is live, what is stopped, how far the workers are; which sessions a kill affects."""

import time
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.examples import like
from haltline.console.http.strict_json import StrictRoute
from haltline.console.ids import whole
from haltline.console.lag import LagWatch
from haltline.console.read_model import fleet
from haltline.schemas.decisions import ScopeKind
from haltline.streams.operator.blast_radius import preview
from haltline.streams.operator.ids import NotFound

router = APIRouter(prefix="/api/v1", tags=["fleet"], route_class=StrictRoute)

_LONGEST_S = 7 * 86_400


class Overview(BaseModel):
    """Counts of the whole fleet."""

    model_config = like(
        live=8,
        sessions=1510,
        events=7776,
        cost_usd=6.27,
        standing={"killed": 4, "frozen": 2},
        incidents=2,
        waiting=1,
        soonest_expiry_ms=1767272400000,
        trips_24h=3,
        trips_by_hour=[0] * 23 + [3],
    )

    live: int
    """Sessions that were active in the last 15 minutes and have not ended."""
    sessions: int
    events: int
    cost_usd: float
    standing: dict[str, int]
    """What is killed, frozen, contained or on probation, by state."""
    incidents: int
    """Those that are not resolved."""
    waiting: int
    """Approvals that can be answered now."""
    soonest_expiry_ms: int | None
    trips_24h: int
    """Interventions of the last 24 hours that did more than warn."""
    trips_by_hour: list[int]
    """Of these: 24 numbers, the hour that is now last."""


class Lag(BaseModel):
    """How far a consumer group is on a topic."""

    model_config = like(group="haltline", topic="haltline.actions", partitions=4, lag_records=17, worst=9)

    group: str
    topic: str
    partitions: int
    lag_records: int
    worst: int
    """Of one partition."""


class AffectedSession(BaseModel):
    """A session that a kill, a freeze or a containment would affect."""

    model_config = like(session_id="night-7", agent_id="cleaner", mission_id=None, last_ms=1767268812000, by_tree=False)

    session_id: str
    agent_id: str
    mission_id: str | None
    last_ms: int
    by_tree: bool
    """It is affected as the subagent of another session."""


class Preview(BaseModel):
    """The sessions that a kill, a freeze or a containment would affect, by recent events."""

    scope: ScopeKind
    id: Annotated[str, Field(examples=["night-7"])]
    unknown: Annotated[bool, Field(examples=[False])]
    """No events of a session, agent or mission with this id were found: an act on it needs `unknown` too."""
    lookback_s: Annotated[int, Field(examples=[3600])]
    agents: Annotated[list[str], Field(examples=[["cleaner"]])]
    sessions: list[AffectedSession]
    """The last active first."""


class Stop(BaseModel):
    """A session that has acknowledged the stop."""

    model_config = like(session_id="night-7", agent_id="cleaner", time_ms=1767268812040, took_ms=40)

    session_id: str
    agent_id: str | None
    time_ms: int
    took_ms: int | None
    """From the worker's decision."""


@router.get("/fleet")
def overview(here: ContextDep, _: Viewer) -> Overview:
    """What is live, stopped and waiting, and the trips of the last day by hour."""
    return Overview(**fleet.overview(here.engine, time.time_ns() // 1_000_000))


@router.get("/fleet/lag")
def lag(request: Request, here: ContextDep, _: Viewer) -> list[Lag]:
    """How far the workers are, by topic. Of the last two seconds, as all requests share one query of the broker."""
    watch: LagWatch = request.app.state.lag
    return [Lag(**one) for one in watch.look(here.settings)]


@router.get("/kill/preview")
def whom(
    here: ContextDep,
    _: Viewer,
    scope: ScopeKind,
    id: Annotated[str, Query(min_length=1, max_length=256)],  # noqa: A002  # as in the act itself
    lookback_s: Annotated[int, Query(ge=1, le=_LONGEST_S)] = 3600,
) -> Preview:
    """The sessions that a kill, freeze or containment would affect now: active in the last `lookback_s`, not ended."""
    unknown = False
    try:
        id = whole(here, scope, id)  # noqa: A001  # as above
    except NotFound:
        unknown = True
    found = preview(
        here.settings.bootstrap,
        here.settings.topics,
        scope,
        id,
        lookback=timedelta(seconds=lookback_s),
        client=here.settings.client,
    )
    sessions = [
        AffectedSession(
            session_id=seen.session_id,
            agent_id=seen.agent_id,
            mission_id=seen.mission_id,
            last_ms=seen.last_ms,
            by_tree=scope is ScopeKind.SESSION and seen.session_id != id,
        )
        for seen in found.sessions
    ]
    agents = list(found.agents)
    return Preview(scope=scope, id=id, unknown=unknown, lookback_s=lookback_s, agents=agents, sessions=sessions)


@router.get("/kill/stops")
def stops(here: ContextDep, _: Viewer, decision_id: Annotated[str, Query(min_length=1, max_length=256)]) -> list[Stop]:
    """Which sessions have acknowledged the stop because of a decision."""
    return [Stop(**one) for one in fleet.stops_of(here.engine, decision_id)]
