"""`/api/v1/search`: text search over everything that has a page."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.json_response import answer
from haltline.console.http.strict_json import StrictRoute
from haltline.console.read_model.search import search
from haltline.schemas.record import rfc3339

router = APIRouter(prefix="/api/v1/search", tags=["search"], route_class=StrictRoute)


class SearchKind(StrEnum):
    """The kinds of matches."""

    SESSION = "session"
    AGENT = "agent"
    TARGET = "target"
    TOOL = "tool"
    INCIDENT = "incident"
    INTERVENTION = "intervention"


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
    part = q.strip()
    groups = [
        SearchGroup(
            kind=SearchKind(of.kind),
            results=[
                SearchResult(id=one.id, text=one.text, path=one.path, time=rfc3339(one.time_ms)) for one in of.found
            ],
            more=of.more,
        )
        for of in (search(here.engine, part, limit) if part else ())
    ]
    return answer(SearchResults(q=part, groups=groups))
