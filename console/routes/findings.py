"""`/api/v1/detections`: findings."""

from collections.abc import Sequence
from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from sqlalchemy import ColumnElement, Engine, and_, func, select

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.routing import From, Limit, Page, Skip, StrictRoute, Until
from haltline.console.read_model import tables
from haltline.schemas.findings import Severity
from haltline.schemas.record import JsonObject

router = APIRouter(prefix="/api/v1", tags=["findings"], route_class=StrictRoute)

_R = tables.records.c


class DetectionList(Page):
    """A page of findings as they are on the topic, the newest first."""

    detections: list[JsonObject]


@router.get("/detections")
def detections(
    here: ContextDep,
    _: Viewer,
    detector: str | None = None,
    severity: Annotated[Severity | None, Query(description="At least this severe.")] = None,
    session_id: str | None = None,
    agent_id: str | None = None,
    start_ms: From = None,
    end_ms: Until = None,
    skip: Skip = 0,
    limit: Limit = 50,
) -> DetectionList:
    """The findings that match every filter, also those without a decision."""
    held = [_of("detections", session_id), *tables.between(_R.time_ms, start_ms, end_ms)]
    filters = {_R.detector: detector, _R.session_id: session_id, _R.agent_id: agent_id}
    held += [column == value for column, value in filters.items() if value is not None]
    if severity is not None:
        held.append(_R.severity.in_([one.value for one in Severity if one.rank >= severity.rank]))
    bodies, total = _page(here.engine, held, skip, limit)
    return DetectionList(detections=[orjson.loads(body) for body in bodies], total=total, skip=skip, limit=limit)


def _of(topic: str, session_id: str | None) -> ColumnElement[bool]:
    """The records of a topic; for a session, which has few, the condition lets only the session's index be used."""
    return tables.of_topic(topic) if session_id is None else _R.topic.concat("") == topic


def _page(engine: Engine, held: Sequence[ColumnElement[bool]], skip: int, limit: int) -> tuple[list[str], int]:
    order = (_R.time_ms.desc(), _R.partition, _R.offset.desc())
    # Selected first and read afterwards: the bodies of rows that are not shown are most of the table.
    chosen = (
        select(_R.topic, _R.partition, _R.offset).where(*held).order_by(*order).offset(skip).limit(limit).subquery()
    )
    at = and_(*(_R[name] == chosen.c[name] for name in ("topic", "partition", "offset")))
    with engine.connect() as connection:
        total = connection.execute(select(func.count()).select_from(tables.records).where(*held)).scalar_one()
        found = connection.execute(select(_R.body).join_from(chosen, tables.records, at).order_by(*order)).scalars()
        return list(found), total
