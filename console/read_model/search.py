"""Text search over everything that has a page: sessions, agents, targets, tools, incidents, interventions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Select, select

from haltline.console.read_model import tables
from haltline.console.read_model.text_search import matching

_LOOKED_AT: Final = 200
"""The latest matches of each kind from which the best are selected."""
_MAX_TEXT: Final = 300


@dataclass(frozen=True, kw_only=True)
class Match:
    """A match, and its page."""

    id: str
    text: str
    """A description: a goal, a reason."""
    path: str
    time_ms: int


@dataclass(frozen=True, kw_only=True)
class Matches:
    """Matches of one kind, the best first: the whole id, then its beginning, then the latest."""

    kind: str
    found: Sequence[Match]
    more: bool


def search(engine: Engine, part: str, limit: int) -> list[Matches]:
    """Search for a text: at most `limit` matches of each kind; kinds without a match are left out."""
    with engine.connect() as connection:
        each = [(kind, _best(rows(connection, part), part)) for kind, rows in _KINDS.items()]
    return [Matches(kind=kind, found=found[:limit], more=len(found) > limit) for kind, found in each if found]


def _best(found: Sequence[Match], part: str) -> list[Match]:
    part = part.lower()

    def order(one: Match) -> tuple[bool, bool, int]:
        name = one.id.lower()
        return name != part, not name.startswith(part), -one.time_ms

    return sorted({one.path: one for one in found}.values(), key=order)


def _rows(connection: Connection, statement: Select[Any], of: Any, key: Any, part: str) -> list[Any]:
    """The latest rows that contain the text, and the one with exactly this id, however old."""
    latest = of.c.n.in_(matching(connection.dialect.name, of, part, _LOOKED_AT))
    return [row for condition in (latest, key == part) for row in connection.execute(statement.where(condition))]


def _sessions(connection: Connection, part: str) -> list[Match]:
    of = tables.sessions
    rows = _rows(connection, select(of.c.session_id, of.c.goal, of.c.last_ms), of, of.c.session_id, part)
    return [Match(id=name, text=goal[:_MAX_TEXT], path=_path("sessions", name), time_ms=at) for name, goal, at in rows]


def _incidents(connection: Connection, part: str) -> list[Match]:
    of = tables.incidents
    columns = (of.c.incident_id, of.c.scope, of.c.scope_id, of.c.cause, of.c.last_ms)
    rows = _rows(connection, select(*columns), of, of.c.incident_id, part)
    return [
        Match(id=name, text=f"{cause} of {scope} {scope_id}"[:_MAX_TEXT], path=_path("incidents", name), time_ms=at)
        for name, scope, scope_id, cause, at in rows
    ]


def _interventions(connection: Connection, part: str) -> list[Match]:
    of = tables.interventions
    shown = select(of.c.id, of.c.action_name, of.c.policy_id, of.c.session_id, of.c.time_ms).where(
        of.c.hidden.is_(False)
    )
    return [
        Match(
            id=name,
            text=f"{action or 'no action'}: {rule or 'an operator'} in session {session}"[:_MAX_TEXT],
            path=_path("interventions", name),
            time_ms=at,
        )
        for name, action, rule, session, at in _rows(connection, shown, of, of.c.id, part)
    ]


def _named(kind: str, text: str, path: str) -> Callable[[Connection, str], list[Match]]:
    def found(connection: Connection, part: str) -> list[Match]:
        of = tables.names
        statement = select(of.c.name, of.c.last_ms).where(of.c.kind == kind)
        if kind == "target":  # there may be many
            rows = _rows(connection, statement, of, of.c.name, part)
        else:
            contains = of.c.words.contains(part.lower(), autoescape=True)
            rows = list(connection.execute(statement.where(contains).order_by(of.c.name).limit(_LOOKED_AT)))
        return [Match(id=name, text=text, path=path + quote(name, safe=""), time_ms=at) for name, at in rows]

    return found


def _path(page: str, name: str) -> str:
    return f"/{page}/{quote(name, safe='')}"


_KINDS: Final[dict[str, Callable[[Connection, str], list[Match]]]] = {
    "session": _sessions,
    "agent": _named("agent", "sessions of this agent", "/sessions?agent_id="),
    "target": _named("target", "interventions on this target", "/interventions?search="),
    "tool": _named("tool", "interventions on calls of this tool", "/interventions?action_name="),
    "incident": _incidents,
    "intervention": _interventions,
}
