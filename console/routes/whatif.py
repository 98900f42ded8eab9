"""The policy editor: the policy in force as text, and the effect of a change on past sessions."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

import orjson
import yaml
from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import Engine

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.routing import UNUSABLE, StrictRoute
from haltline.console.read_model.history import (
    core_of,
    count_since,
    events_of,
    labels_of,
    published_policy,
    sessions_since,
)
from haltline.console.routes.policies import read_document
from haltline.console.settings import ConsoleSettings
from haltline.schemas.policy import Policy
from haltline.schemas.record import rfc3339
from haltline.streams.audit.query import QueryFailed
from haltline.streams.engine.plugins import installed
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.policy.source import DEFAULT_NAME, current
from haltline.streams.replay import history
from haltline.streams.replay.backtest import Recorded, Result, related, together
from haltline.streams.replay.table_range import TableRange
from haltline.streams.replay.whatif import SAME, Sweep, change_of, totals_of

MAX_EVENTS = 5_000
"""The most events of one session: its first ones."""


def of_read_model(engine: Engine, since_ms: int, most: int) -> tuple[list[Recorded], int]:
    """The latest sessions in the read model, with the operators' labels; and their number in that time."""
    labels = history.labels_of(labels_of(engine))
    sessions = []
    for name in sessions_since(engine, since_ms, most):
        events = {event.event_id: event for event in events_of(engine, name, MAX_EVENTS)}
        sessions.append(Recorded(name, tuple(enumerate(events.values())), label=labels.get(name)))
    return [one for one in sessions if one.events], count_since(engine, since_ms)


def of_audit(settings: ConsoleSettings, since_ms: int, most: int) -> tuple[list[Recorded], int]:
    """The same of the audit table. Raises HTTPException: there is no table, or nothing in this time."""
    if settings.audit_table is None:
        raise HTTPException(400, "source: expected a console with --audit-table, got one without")
    try:
        found = TableRange(settings.audit_table, settings.topics, since_ms, storage_options=settings.audit_options)
        sessions = history.sessions_of(found)
    except QueryFailed as error:
        raise HTTPException(400, str(error)) from None
    latest = sorted(sessions, key=lambda one: -max((event.time for _, event in one.events), default=0))
    return latest[:most], len(sessions)


def results_of(sessions: Sequence[Recorded], policy: Policy) -> list[Result]:
    """The results under a policy; sessions of one tree are evaluated together, all others separately."""
    core = core_of(policy)
    results = {one.session_id: one for group in related(sessions) for one in together(core, group)}
    return [results[session.session_id] for session in sessions]


router = APIRouter(prefix="/api/v1/policy", tags=["policies"], route_class=StrictRoute)

_MAX: Final = 500
"""Sessions of one what-if."""
_LONGEST_S: Final = 366 * 86_400

Document = Annotated[
    str, Field(max_length=1024 * 1024, examples=["rules: {destructive_volume: {settings: {max_deletes: 5}}}"])
]


class PolicyInForce(BaseModel):
    """A published policy, or the defaults."""

    name: str
    version: int
    document: str
    """YAML; without a published policy, the name only."""
    by: str | None
    reason: str | None
    time: str | None
    names: list[str]
    """The names of all published policies."""


class ThresholdChange(BaseModel):
    """One setting with another value."""

    rule: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", examples=["destructive_volume"])]
    setting: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", examples=["max_deletes"])]
    value: float | int | bool | str


class WhatIfRequest(BaseModel):
    """A policy to evaluate on past sessions."""

    document: Document | None = None
    """Left out: the policy in force."""
    move: ThresholdChange | None = None
    """One setting to change in it."""
    since_s: Annotated[int, Field(ge=1, le=_LONGEST_S)] = 7 * 86_400
    source: Literal["read_model", "audit"] = "read_model"
    limit: Annotated[int, Field(ge=1, le=_MAX)] = 200


class SessionOutcome(BaseModel):
    """The result of a session under one policy."""

    level: str
    """The highest level decided, except requests for approval."""
    first: dict[str, Any] | None
    """The first decision at PAUSE or above, except requests for approval: number of the event, rule and level."""
    asks: int
    """The number of requests for a person's approval."""


class ChangedSession(BaseModel):
    """A session whose result differs."""

    session_id: str
    label: str | None
    """The operators' labels of the session."""
    change: str
    """Its stop `appears`, `vanishes` or `moves`; also `moves` if only the level or the requests for approval differ."""
    before: SessionOutcome
    after: SessionOutcome


class WhatIfResult(BaseModel):
    """The differences."""

    document: str
    """The evaluated document, as YAML."""
    sessions: int
    of: int
    """The number of sessions in that time range; the latest of them were evaluated."""
    before: Annotated[dict[str, Any], Field(examples=[{"sessions": 200, "stopped": 5, "nudged": 9}])]
    after: Annotated[dict[str, Any], Field(examples=[{"sessions": 200, "stopped": 4, "nudged": 10}])]
    """Sessions stopped and nudged, costs, and the quality by labels."""
    changed: list[ChangedSession]


@router.get("")
def standing(here: ContextDep, _: Viewer, name: str = DEFAULT_NAME) -> PolicyInForce:
    """The policy published under a name, or the defaults; workers with a policy file use another one."""
    documents = current(here.settings.bootstrap, here.settings.topics.policies, client=here.settings.client)
    names = sorted(documents)
    found = documents.get(name)
    if found is None:
        return PolicyInForce(
            name=name, version=1, document=f"name: {name}\n", by=None, reason=None, time=None, names=names
        )
    document = orjson.loads(found.value or b"{}")
    published = document.pop("published", {})
    version = document.pop("version", 1)  # the next version is assigned on publication
    return PolicyInForce(
        name=name,
        version=version,
        document=_yaml(document),
        by=published.get("by"),
        reason=published.get("reason"),
        time=rfc3339(found.timestamp),
        names=names,
    )


@router.post("/what-if", responses=UNUSABLE)
def what_if(here: ContextDep, _: Viewer, body: WhatIfRequest) -> WhatIfResult:
    """The results of past sessions under another policy, beside those under the one in force. Changes nothing."""
    policy = None if body.document is None else read_document(body.document)
    before = published_policy(here.settings)
    after = policy or before
    if body.move is not None:
        move = body.move
        try:
            after = Sweep(f"rules.{move.rule}.settings.{move.setting}", (move.value,)).policy(
                after, _whole(move.value), installed()
            )
        except BadPolicy as error:
            raise HTTPException(400, str(error)) from None
    since_ms = time.time_ns() // 1_000_000 - body.since_s * 1000
    if body.source == "audit":
        sessions, of = of_audit(here.settings, since_ms, body.limit)
    else:
        sessions, of = of_read_model(here.engine, since_ms, body.limit)
    first, second = results_of(sessions, before), results_of(sessions, after)
    document = after.model_dump(mode="json", exclude_unset=True, exclude={"published", "version"})
    return WhatIfResult(
        document=body.document if body.document is not None and body.move is None else _yaml(document),
        sessions=len(sessions),
        of=of,
        before=asdict(totals_of(first)),
        after=asdict(totals_of(second)),
        changed=[
            ChangedSession(
                session_id=old.session_id, label=old.label, change=change, before=_outcome(old), after=_outcome(new)
            )
            for old, new in zip(first, second, strict=True)
            if (change := change_of(new, old)) != SAME
        ],
    )


def _outcome(result: Result) -> SessionOutcome:
    first = result.first
    stop = None if first is None else {"seq": first.seq, "rule": first.detector, "level": first.level}
    return SessionOutcome(level=result.level, first=stop, asks=result.asks)


def _whole(value: float | bool | str) -> Any:
    """Convert a whole float to an integer, as a browser has one kind of number: 5.0 is 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
