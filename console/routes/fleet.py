"""The whole fleet: live sessions, restrictions in force, workers' lag; and the sessions that a kill would affect."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.routing import Limit, StrictRoute
from haltline.console.ids import whole
from haltline.console.problem_kinds import Problem
from haltline.console.protection_watch import ProtectionWatch
from haltline.console.read_model import fleet
from haltline.console.read_model.history import published_policy
from haltline.console.routes.approvals import Request as ApprovalRequest
from haltline.console.routes.approvals import shown_request
from haltline.console.settings import ConsoleSettings
from haltline.detectors.cross_session.budgets import AgentBudget, MissionBudget
from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.settings import construct
from haltline.detectors.session.budget import Budget
from haltline.detectors.session.spend_velocity import SpendVelocity
from haltline.schemas.control import ControlRecord, ControlState, control_key
from haltline.schemas.decisions import WHOLE_SESSION, ScopeKind
from haltline.schemas.policy import Policy
from haltline.schemas.record import rfc3339
from haltline.streams.engine.effective_rules import EffectiveRules
from haltline.streams.history import queries
from haltline.streams.operator.blast_radius import preview
from haltline.streams.operator.client import Operator, PartitionLag
from haltline.streams.operator.command_factory import now_ms
from haltline.streams.operator.ids import NotFound

_SETTING: Final[tuple[type[Pattern[Any]], ...]] = (Budget, AgentBudget, MissionBudget, SpendVelocity)


@dataclass(frozen=True)
class PolicyLimit:
    """A limit on the use of a resource."""

    rule: str
    resource: str
    """`cost_usd`, `tokens`, `calls`, `duration_s` or `file_ops`."""
    limit: float
    per: str
    """The scope of the limit: `session`, `session and minute`, `mission`, `agent and 24 h`."""
    mode: str


def limits_of(policy: Policy, agent_id: str, session_id: str, now_ms: int) -> list[PolicyLimit]:
    """The policy's limits for a session of an agent at this time; limits that the session declares are left out."""
    effective = _effective(policy.model_dump_json(exclude_unset=True))
    rules = effective.under(effective.overrides(agent_id, session_id, now_ms))
    return [
        PolicyLimit(detector.id, resource, limit, per, rules[detector.id].mode.value)
        for detector in _SETTING
        if rules[detector.id].enabled
        for resource, limit, per in _of(construct(detector, rules[detector.id].settings))
    ]


@lru_cache(maxsize=4)
def _effective(document: str) -> EffectiveRules:
    return EffectiveRules(Policy.model_validate_json(document))


def _of(detector: Pattern[Any]) -> Iterator[tuple[str, float, str]]:
    match detector:
        case Budget(limits=limits):
            yield from ((name, limit, "session") for name, limit in limits.items())
        case AgentBudget(limits=limits, period_h=period_h):
            yield from ((name, limit, f"agent and {period_h} h") for name, limit in limits.items())
        case MissionBudget(limits=limits):
            yield from ((name, limit, "mission") for name, limit in limits.items())
        case SpendVelocity(cost_usd_per_min=cost_usd, tokens_per_min=tokens):
            rates = (("cost_usd", cost_usd), ("tokens", tokens))
            yield from ((name, limit, "session and minute") for name, limit in rates if limit is not None)


_KEPT_S: Final = 2.0


@dataclass
class Lag:
    """The lag of a consumer group on a topic."""

    group: str
    topic: str
    partitions: int = 0
    lag_records: int = 0
    worst: int = 0
    """The lag of the partition that is furthest behind."""


class LagWatch:
    """One cached result for all clients."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._at_s = -_KEPT_S
        self._seen: list[Lag] = []

    def look(self, settings: ConsoleSettings) -> list[Lag]:
        """The lag by topic. Raises Unreachable and NoSuchTopic."""
        with self._lock:
            if self._clock() - self._at_s >= _KEPT_S:
                operator = Operator(
                    settings.bootstrap, topics=settings.topics, group=settings.workers, client=settings.client
                )
                self._seen = by_topic(settings.workers, operator.lag())
                self._at_s = self._clock()
            return self._seen


def by_topic(group: str, partitions: list[PartitionLag]) -> list[Lag]:
    """Sums over the partitions of each topic, in the given order."""
    found: dict[str, Lag] = {}
    for one in partitions:
        lag = found.setdefault(one.topic, Lag(group, one.topic))
        lag.partitions += 1
        lag.lag_records += one.lag_records
        lag.worst = max(lag.worst, one.lag_records)
    return list(found.values())


router = APIRouter(prefix="/api/v1", tags=["fleet"], route_class=StrictRoute)

_LONGEST_S = 7 * 86_400
Hours = Annotated[Literal["1", "24", "168"], Query(description="The last hour, day or week.")]


class NeedsPerson(BaseModel):
    """How much needs a person, without what is snoozed; a session may count in several."""

    held: int
    """Sessions that are held."""
    killed: int
    """Sessions that haltline killed within the last day, and about which no operator has sent a command since."""
    waiting: int
    """Requests that can be answered now."""
    incidents: int
    """Unresolved incidents."""
    snoozed: int
    """Unresolved incidents that are snoozed."""


class StoppedSession(BaseModel):
    """A session that is held, or that haltline killed."""

    session_id: str
    agent_id: str
    state: str
    code: str
    reason: str
    by: str
    since: str
    ended: bool
    """Its agent's run is over."""
    request_id: str | None
    """Of a held session: the request that an operator answers to release or kill it."""


class Attention(BaseModel):
    """What needs a person now: each session and request once."""

    stopped: list[StoppedSession]
    """Held sessions, then killed ones, the latest first."""
    requests: list[ApprovalRequest]
    """Single calls that wait, the most urgent first."""
    snoozed: int
    """Incidents that are left out because they are snoozed."""


class Overview(BaseModel):
    """Counts of the whole fleet."""

    live: int
    """Sessions that were active in the last 15 minutes and have not ended."""
    sessions: int
    events: int
    cost_usd: float
    standing: dict[str, int]
    """The number of killed, frozen, contained or probationary entries, by state."""
    incidents: int
    """Unresolved incidents."""
    waiting: int
    """Approvals that can be answered now."""
    needs_person: NeedsPerson
    soonest_expiry_ms: int | None
    trips_24h: int
    """Interventions of the last 24 hours above a warning."""
    trips_by_hour: list[int]
    """The same by hour: 24 numbers, the current hour last."""


class LevelCounts(BaseModel):
    """Trips of one level over time."""

    level: str
    """Empty: records of other guards, which have no levels."""
    counts: list[int]
    """The count of each step, the current step last."""


class Trips(BaseModel):
    """Trips by level over time: interventions above a warning."""

    hours: int
    step_ms: int
    from_ms: int
    """The start of the first step."""
    levels: list[LevelCounts]
    """From the lowest level to the highest; levels without trips are left out."""
    total: int


class Tripped(BaseModel):
    """An agent or a tool, and its trips."""

    name: str
    trips: int


class Top(BaseModel):
    """The agents and tools with the most trips."""

    hours: int
    agents: list[Tripped]
    tools: list[Tripped]


class Spending(BaseModel):
    """US dollars in each of the last 60 minutes of event time."""

    from_ms: int
    cost_usd: list[float]
    """The total of all sessions; the current minute is last."""
    most_usd: list[float]
    """The amount of the session that spent the most in that minute."""
    sessions: list[int]
    """The number of sessions that spent anything."""


class PolicyLimits(BaseModel):
    """The published policy's limits on the use of resources."""

    policy: str
    version: int
    limits: list[PolicyLimit]


class LiveSession(BaseModel):
    """A session that is live."""

    session_id: str
    agent_id: str
    level: str
    """The highest level decided."""
    state: str | None
    """The restriction in force for it."""
    last_ms: int


class LiveGroup(BaseModel):
    """Live sessions with one cause."""

    cause: str | None
    """The cause of each session's worst open incident or of its kill; null: they have none."""
    incident_id: str | None
    """The incident of the first session."""
    sessions: list[LiveSession]


class Live(BaseModel):
    """The sessions that are live, the worst first."""

    total: int
    groups: list[LiveGroup]


class AffectedSession(BaseModel):
    """A session that a kill, a freeze or a containment would affect."""

    session_id: str
    agent_id: str
    mission_id: str | None
    last_ms: int
    by_tree: bool
    """It is affected as the subagent of another session."""


class Preview(BaseModel):
    """The sessions that a kill, a freeze or a containment would affect, by recent events."""

    scope: ScopeKind
    id: str
    unknown: bool
    """No events of a session, agent or mission with this id were found: an act on it needs `unknown` too."""
    lookback_s: int
    agents: list[str]
    sessions: list[AffectedSession]
    """The most recently active first."""


class Stop(BaseModel):
    """A session that has acknowledged the stop."""

    session_id: str
    agent_id: str | None
    time_ms: int
    took_ms: int | None
    """Milliseconds from the worker's decision."""


class Protection(BaseModel):
    """Whether agents are protected."""

    ok: bool
    """There are no problems."""
    looked_at: str
    """The last check that the broker answered."""
    problems: list[Problem]
    """The worst first."""


@router.get("/protection")
def protection(request: Request, _: Viewer) -> Protection:
    """The present problems: workers without progress, a broker without answer, a canary that was not stopped ..."""
    watch: ProtectionWatch = request.app.state.protection
    problems = watch.problems()
    return Protection(ok=not problems, looked_at=rfc3339(round(watch.looked_s * 1000)), problems=problems)


@router.get("/fleet")
def overview(here: ContextDep, _: Viewer) -> Overview:
    """Counts of live sessions, restrictions and pending approvals, and the trips of the last day by hour."""
    return Overview(**fleet.overview(here.engine, now_ms()))


@router.get("/attention")
def attention(here: ContextDep, _: Viewer) -> Attention:
    """The held and killed sessions and the waiting calls that need a person now, without what is snoozed."""
    at_ms = now_ms()
    needs = queries.needs_person(here.kept, at_ms)
    bodies = here.kept.rows("approvals", ("request_id", "in", list(needs.waiting)))
    requests = {one.id: one for one in (shown_request(row["body"], at_ms) for row in bodies)}
    ordered = [requests[name] for name in needs.waiting if name in requests]
    of_held = {one.session_id: one.id for one in ordered if one.action_name == WHOLE_SESSION}
    ids = [*needs.held, *needs.killed]
    entries = here.kept.rows("control", ("key", "in", [control_key(ScopeKind.SESSION, name) for name in ids]))
    known = {row["session_id"]: row for row in here.kept.rows("sessions", ("session_id", "in", ids))}
    stopped = []
    for row in sorted(entries, key=lambda row: (row["state"] == ControlState.KILLED.value, -row["since_ms"])):
        entry = ControlRecord.model_validate_json(row["body"])
        stopped.append(
            StoppedSession(
                session_id=entry.id,
                agent_id=entry.agent_id,
                state="held" if entry.state is ControlState.FROZEN else entry.state.value,
                code=entry.code,
                reason=entry.reason,
                by=entry.by,
                since=rfc3339(entry.stands_since),
                ended=bool(known.get(entry.id, {}).get("ended")),
                request_id=of_held.get(entry.id),
            )
        )
    return Attention(
        stopped=stopped,
        requests=[one for one in ordered if one.action_name != WHOLE_SESSION or one.session_id not in ids],
        snoozed=needs.snoozed,
    )


@router.get("/fleet/trips")
def trips(here: ContextDep, _: Viewer, hours: Hours = "24") -> Trips:
    """Trips over time by level: by minute for one hour, by quarter of an hour for a day, by hour for a week."""
    return Trips(**fleet.trips(here.engine, now_ms(), int(hours)))


@router.get("/fleet/top")
def top(here: ContextDep, _: Viewer, hours: Hours = "24", limit: Annotated[int, Query(ge=1, le=100)] = 8) -> Top:
    """The agents and the tools with the most trips."""
    return Top(**fleet.top(here.engine, now_ms(), int(hours), limit))


@router.get("/fleet/spending")
def spending(here: ContextDep, _: Viewer) -> Spending:
    """The amount spent in each minute of the last hour, as sessions reported it."""
    return Spending(**fleet.spending(here.engine, now_ms()))


@router.get("/fleet/live")
def live(here: ContextDep, _: Viewer, limit: Limit = 300) -> Live:
    """The live sessions, the worst first, grouped by the cause of their worst incident."""
    return Live(**fleet.live(here.engine, now_ms(), limit))


@router.get("/limits")
def limits(
    here: ContextDep,
    _: Viewer,
    agent_id: Annotated[str, Query(max_length=256)] = "",
    session_id: Annotated[str, Query(max_length=256)] = "",
) -> PolicyLimits:
    """The published policy's limits on the use of resources, for any session, or with the overrides that match one."""
    policy = published_policy(here.settings)
    found = limits_of(policy, agent_id, session_id, now_ms())
    return PolicyLimits(policy=policy.name, version=policy.version, limits=found)


@router.get("/fleet/lag")
def lag(request: Request, here: ContextDep, _: Viewer) -> list[Lag]:
    """The workers' lag by topic, up to two seconds old, as all requests share one query of the broker."""
    watch: LagWatch = request.app.state.lag
    return watch.look(here.settings)


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
        AffectedSession(**vars(seen), by_tree=scope is ScopeKind.SESSION and seen.session_id != id)
        for seen in found.sessions
    ]
    agents = list(found.agents)
    return Preview(scope=scope, id=id, unknown=unknown, lookback_s=lookback_s, agents=agents, sessions=sessions)


@router.get("/kill/stops")
def stops(here: ContextDep, _: Viewer, decision_id: Annotated[str, Query(min_length=1, max_length=256)]) -> list[Stop]:
    """The sessions that have acknowledged the stop because of a decision."""
    return [Stop(**one) for one in fleet.stops_of(here.engine, decision_id)]
