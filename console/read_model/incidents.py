"""Incidents in the read model: storage and queries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final

import orjson
from fastapi import Query
from sqlalchemy import ColumnElement, Connection, Engine, and_, func, or_, select, true

from haltline.console.http.routing import From, Until
from haltline.console.read_model import tables
from haltline.console.read_model.store import insert_of, parts, values
from haltline.console.read_model.text_search import words_of
from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, control_key
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.notifications import NotificationRecord
from haltline.streams.operator.incidents import last_revisions
from haltline.streams.operator.kill_trail import kill_trail

_I: Final = tables.incidents.c
_R: Final = tables.records.c
_OPEN: Final = (IncidentState.OPEN.value, IncidentState.ACKNOWLEDGED.value)
_SAME: Final = {*_I.keys()} & {*IncidentRecord.model_fields} - {"level", "severity"}
"""The columns that are as in the record."""
_MAX_TARGETS: Final = 8
_MAX_TRAIL: Final = 100
_MAX_TARGET_CHARS: Final = 200


@dataclass(frozen=True, kw_only=True)
class IncidentFilter:
    """A filter of incidents; None: any. Its fields are the parameters of the route that lists them."""

    session_id: str | None = None
    """The incident's own session, or the last one that it counted."""
    agent_id: str | None = None
    start_ms: From = None
    """Time of the last decision."""
    end_ms: Until = None
    state: Annotated[list[IncidentState] | None, Query(description="Any of these.")] = None
    open_only: Annotated[bool, Query(description="Only those that are not resolved.")] = False
    scope: ScopeKind | None = None
    scope_id: str | None = None
    cause: Annotated[str | None, Query(description="The rule, or what else it is about.")] = None
    level: Annotated[Level | None, Query(description="At least this level.")] = None
    severity: Annotated[Severity | None, Query(description="At least this severe.")] = None
    assignee: Annotated[str | None, Query(description="Its assignee; empty: not assigned.")] = None

    def condition(self) -> ColumnElement[bool]:
        """The filter as SQL."""
        named = {
            _I.scope: None if self.scope is None else self.scope.value,
            _I.scope_id: self.scope_id,
            _I.session_id: self.session_id,
            _I.agent_id: self.agent_id,
            _I.cause: self.cause,
            _I.assignee: self.assignee or None,
        }
        held: list[ColumnElement[bool]] = [column == value for column, value in named.items() if value is not None]
        if self.state is not None:
            held.append(_I.state.in_([state.value for state in self.state]))
        if self.open_only:
            held.append(_I.state.in_(_OPEN))
        if self.level is not None:
            held.append(_I.level >= self.level.rank)
        if self.severity is not None:
            held.append(_I.severity >= self.severity.rank)
        if self.assignee == "":
            held.append(_I.assignee.is_(None))
        return and_(true(), *held, *tables.between(_I.last_ms, self.start_ms, self.end_ms))


def put_incidents(connection: Connection, records: Iterable[IncidentRecord]) -> None:
    """Store revisions, in any order, also repeatedly: the highest is current, and resolved ones stay resolved."""
    last = last_revisions(records)
    if last:
        connection.execute(_put(connection.dialect.name), [_row(record) for record in last.values()])


def kill_of(engine: Engine, incident: IncidentRecord) -> list[str]:
    """What became of the last kill of an incident's session or agent, in lines."""
    if incident.scope not in (ScopeKind.SESSION, ScopeKind.AGENT):
        return []
    column = _R.session_id if incident.scope is ScopeKind.SESSION else _R.agent_id
    in_force = values(
        engine,
        select(tables.control.c.body).where(tables.control.c.key == control_key(incident.scope, incident.scope_id)),
    )
    called = values(engine, select(_R.body).where(tables.of_topic("notifications"), column == incident.scope_id))
    answers = [wire.decode(NotificationRecord, body.encode()) for body in called]
    same = IncidentFilter(scope=incident.scope, scope_id=incident.scope_id)
    return kill_trail(
        wire.decode(ControlRecord, in_force[0].encode()) if in_force else None,
        [one for one in answers if one.kill is not None and one.kill.scope is incident.scope],
        page(engine, same, 0, _MAX_TRAIL)[0],
    )


def page(engine: Engine, filters: IncidentFilter, skip: int, limit: int) -> tuple[list[IncidentRecord], int]:
    """The page from `skip` on (open ones first, then by severity, level and last decision), and the total number."""
    held = filters.condition()
    order = (_I.open.desc(), _I.severity.desc(), _I.level.desc(), _I.last_ms.desc(), _I.incident_id)
    with engine.connect() as connection:
        total = connection.execute(select(func.count()).select_from(tables.incidents).where(held)).scalar_one()
        bodies = connection.execute(select(_I.body).where(held).order_by(*order).offset(skip).limit(limit)).scalars()
        return [IncidentRecord.model_validate_json(body) for body in bodies], total


def find(engine: Engine, name: str) -> list[IncidentRecord]:
    """The incidents with this id or prefix, two at most. The id of a stop's report is found too."""
    bodies = values(engine, select(_I.body).where(_I.incident_id.startswith(name, autoescape=True)).limit(2))
    if not bodies:
        of_report = select(_R.decision_id).where(_R.incident_id == name)
        bodies = values(engine, select(_I.body).where(_I.decision_id.in_(of_report)).limit(1))
    return [IncidentRecord.model_validate_json(body) for body in bodies]


def history(engine: Engine, incident_id: str) -> list[IncidentRecord]:
    """All published revisions in order, each once."""
    statement = select(_R.body).where(_R.topic == "incidents", _R.event_id == incident_id)
    revisions = (IncidentRecord.model_validate_json(body) for body in values(engine, statement))
    by_revision = {record.revision: record for record in revisions}
    return [record for _, record in sorted(by_revision.items())]


def targets_of(engine: Engine, decisions: Iterable[Decision]) -> dict[str, list[str]]:
    """By decision id: the targets of the calls in its evidence, in order, if those are still stored.

    A call without targets gives its simple arguments as `name=value`; without these, its tool.
    """
    evidence = {one.decision_id: [at.event_id for at in one.evidence] for one in decisions}
    known: dict[str, list[str]] = {}
    with engine.connect() as connection:
        for ids in parts(sorted({name for of in evidence.values() for name in of})):
            statement = select(_R.event_id, _R.body).where(_R.topic == "actions", _R.event_id.in_(ids))
            for event_id, body in connection.execute(statement):
                known[event_id] = _acts_on(orjson.loads(body))
    return {
        name: list(dict.fromkeys(target for of in ids for target in known.get(of, ())))[:_MAX_TARGETS]
        for name, ids in evidence.items()
    }


def _acts_on(event: Mapping[str, Any]) -> list[str]:
    if event.get("targets"):
        return [str(target) for target in event["targets"]]
    simple = {name: value for name, value in (event.get("args") or {}).items() if isinstance(value, str | int | float)}
    named = [f"{name}={value}"[:_MAX_TARGET_CHARS] for name, value in simple.items()]
    return named or ([f"tool={event['action']}"] if event.get("action") else [])


def _row(record: IncidentRecord) -> dict[str, Any]:
    return {
        **record.model_dump(mode="json", include=_SAME),
        "open": record.state is not IncidentState.RESOLVED,
        "level": record.level.rank,
        "severity": -1 if record.severity is None else record.severity.rank,
        "last_ms": record.last_at,
        "words": words_of(
            record.incident_id, record.cause, record.scope_id, record.target, record.summary, record.session_id,
            record.agent_id,
        ),
        "body": record.to_json().decode(),
    }  # fmt: skip


@cache
def _put(dialect: str) -> Any:
    """An upsert with the condition of `IncidentRecord.stands_over`."""
    table = tables.incidents
    insert = insert_of(dialect, table)
    others = {
        column.name: insert.excluded[column.name] for column in table.c if column.name not in ("n", "incident_id")
    }
    return insert.on_conflict_do_update(
        index_elements=[table.c.incident_id],
        set_=others,
        where=and_(table.c.open, or_(~insert.excluded.open, table.c.revision <= insert.excluded.revision)),
    )
