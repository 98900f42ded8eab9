"""`/api/v1/search`: text search over everything that has a page: sessions, agents, targets, tools and so on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel
from sqlalchemy import Column, ColumnElement, Connection, Engine, Table, select

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.routing import StrictRoute, answer
from haltline.console.read_model import tables
from haltline.console.read_model.text_search import matching
from haltline.schemas.record import rfc3339

router = APIRouter(prefix="/api/v1/search", tags=["search"], route_class=StrictRoute)

_LOOKED_AT: Final = 200
"""The latest matches of each kind from which the best are selected."""
_MAX_TEXT: Final = 300


SearchKind: TypeAlias = Literal["session", "agent", "target", "tool", "incident", "intervention"]
"""The kind of a match."""


class SearchResult(BaseModel):
    """One match."""

    id: str
    text: str
    """A description, such as a goal."""
    path: str
    """Its page in this console."""
    time: str
    """The time of the latest event."""


class SearchGroup(BaseModel):
    """The matches of one kind, the best first."""

    kind: SearchKind
    results: list[SearchResult]
    more: bool
    """There are further matches."""


class SearchResults(BaseModel):
    """Matches by kind; kinds without a match are left out."""

    q: str
    groups: list[SearchGroup]


@dataclass(frozen=True)
class _Searched:
    """Where the matches of a kind are found, and how they are described."""

    table: Table
    id: Column[str]
    time_ms: Column[int]
    page: str
    """The path of its page, up to the id."""
    text: Callable[[Any], str]
    """The description of a row."""
    held: tuple[ColumnElement[bool], ...] = ()
    is_indexed: bool = True
    """False: there are few, and all are read."""


@router.get("", response_model=SearchResults)
def find(
    here: ContextDep,
    _: Viewer,
    q: Annotated[str, Query(min_length=1, max_length=200, description="A part of an id, name, goal or reason.")],
    limit: Annotated[int, Query(ge=1, le=100, description="Results of each kind.")] = 5,
) -> Response:
    """Sessions, agents, targets, tools, incidents and interventions that contain a text, ignoring case.

    The whole id comes first, then ids that begin with the text, then the latest. One or two characters are searched in
    the latest 3,000 of each kind.
    """
    return answer(SearchResults(q=q.strip(), groups=search(here.engine, q.strip(), limit)))


def search(engine: Engine, part: str, limit: int) -> list[SearchGroup]:
    """At most `limit` matches of each kind, the best first; kinds without a match are left out."""
    if not part:
        return []
    with engine.connect() as connection:
        found = {kind: _best(connection, of, part) for kind, of in _SEARCHED.items()}
    return [
        SearchGroup(kind=kind, results=results[:limit], more=len(results) > limit)
        for kind, results in found.items()
        if results
    ]


def _best(connection: Connection, of: _Searched, part: str) -> list[SearchResult]:
    """The latest rows that contain the text, and the one with exactly this id, however old; the best first."""
    name, time_ms = of.id.name, of.time_ms.name
    statement = select(*(column for column in of.table.c if column.name != "body")).where(*of.held)
    if of.is_indexed:
        latest = of.table.c.n.in_(matching(connection.dialect.name, of.table, part, _LOOKED_AT))
        statements = [statement.where(latest), statement.where(of.id == part)]
    else:
        contains = of.table.c.words.contains(part.lower(), autoescape=True)
        statements = [statement.where(contains).order_by(of.id).limit(_LOOKED_AT)]
    rows = {row[name]: row for one in statements for row in connection.execute(one).mappings()}

    def order(row: Any) -> tuple[bool, bool, int]:
        lower = row[name].lower()
        return lower != part.lower(), not lower.startswith(part.lower()), -row[time_ms]

    return [
        SearchResult(
            id=row[name],
            text=of.text(row)[:_MAX_TEXT],
            path=of.page + quote(row[name], safe=""),
            time=rfc3339(row[time_ms]),
        )
        for row in sorted(rows.values(), key=order)
    ]


def _named(kind: str, page: str, text: str, *, is_indexed: bool = False) -> _Searched:
    names = tables.names
    return _Searched(names, names.c.name, names.c.last_ms, page, lambda _: text, (names.c.kind == kind,), is_indexed)


_S: Final = tables.sessions.c
_I: Final = tables.incidents.c
_V: Final = tables.interventions.c
_SEARCHED: Final = {
    "session": _Searched(tables.sessions, _S.session_id, _S.last_ms, "/sessions/", lambda row: row["goal"]),
    "agent": _named("agent", "/sessions?agent_id=", "sessions of this agent"),
    "target": _named("target", "/interventions?search=", "interventions on this target", is_indexed=True),
    "tool": _named("tool", "/interventions?action_name=", "interventions on calls of this tool"),
    "incident": _Searched(
        tables.incidents,
        _I.incident_id,
        _I.last_ms,
        "/incidents/",
        lambda row: f"{row['cause']} of {row['scope']} {row['scope_id']}",
    ),
    "intervention": _Searched(
        tables.interventions,
        _V.id,
        _V.time_ms,
        "/interventions/",
        lambda row: (
            f"{row['action_name'] or 'no action'}: {row['policy_id'] or 'an operator'} in session {row['session_id']}"
        ),
        (_V.hidden.is_(False),),
    ),
}
