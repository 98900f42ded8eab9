"""Ids of sessions, agents and missions, possibly shortened: resolved in the read model, and else in the topics."""

from typing import Final

from sqlalchemy import Column, Engine, func, select

from haltline.console.context import Context
from haltline.console.read_model import tables
from haltline.console.read_model.store import values
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.streams.operator.ids import SHOWN, NotFound, resolve
from haltline.streams.operator.known_sessions import HINT

_COLUMNS: Final = {
    ScopeKind.SESSION: tables.sessions.c.session_id,
    ScopeKind.AGENT: tables.sessions.c.agent_id,
    ScopeKind.MISSION: tables.sessions.c.mission_id,
}


def whole(here: Context, scope: ScopeKind, given: str, *, unknown: bool = False, hint: str = HINT) -> str:
    """The whole id. An id that the read model does not have yet is searched in the topics.

    Raises NotFound: no events of it were found; Ambiguous: several ids have this prefix.
    """
    column = _COLUMNS.get(scope)
    if unknown or column is None:
        return given
    try:
        return resolve(scope.value, given, beginning(here.engine, column, given))
    except NotFound:
        return here.inbox.find(scope, given, hint=hint)


def session_in(engine: Engine, given: str) -> str:
    """The session in the read model with this id or prefix. Raises NotFound and Ambiguous."""
    return resolve("session", given, beginning(engine, tables.sessions.c.session_id, given))


def decision_in(engine: Engine, given: str) -> Decision:
    """The decision in the read model with this id or prefix. Raises NotFound and Ambiguous."""
    table = tables.records.c
    decision_id = resolve("decision", given, beginning(engine, table.decision_id, given))
    statement = select(table.body).where(tables.of_topic("interventions"), table.decision_id == decision_id)
    (body,) = values(engine, statement.limit(1))
    return Decision.model_validate_json(body)


def beginning(engine: Engine, column: Column[str], given: str) -> list[str]:
    """The id if it exists, else ids with this prefix: only some of many, as they are ambiguous anyway."""
    same = select(column).where(column == given).limit(1)
    # Not LIKE, which ignores case in SQLite, nor a range, which depends on PostgreSQL's collation.
    begin = select(column).where(func.substr(column, 1, len(given)) == given).distinct().limit(SHOWN + 2)
    return values(engine, same) or values(engine, begin)
