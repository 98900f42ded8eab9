"""Ids of sessions, agents and missions, possibly shortened: resolved in the read model, and else in the topics."""

from typing import Final

from haltline.console.context import Context
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.streams.history.kept import Kept
from haltline.streams.history.queries import decisions_of
from haltline.streams.operator.ids import SHOWN, NotFound, resolve
from haltline.streams.operator.known_sessions import HINT

_COLUMNS: Final = {
    ScopeKind.SESSION: "session_id",
    ScopeKind.AGENT: "agent_id",
    ScopeKind.MISSION: "mission_id",
}


def whole(here: Context, scope: ScopeKind, given: str, *, unknown: bool = False, hint: str = HINT) -> str:
    """The whole id. An id that the read model does not have yet is searched in the topics.

    Raises NotFound: no events of it were found; Ambiguous: several ids have this prefix.
    """
    column = _COLUMNS.get(scope)
    if unknown or column is None:
        return given
    try:
        return resolve(scope.value, given, beginning(here.kept, "sessions", column, given))
    except NotFound:
        return here.inbox.find(scope, given, hint=hint)


def session_in(kept: Kept, given: str) -> str:
    """The session in the read model with this id or prefix. Raises NotFound and Ambiguous."""
    return resolve("session", given, beginning(kept, "sessions", "session_id", given))


def decision_in(kept: Kept, given: str) -> Decision:
    """The decision in the read model with this id or prefix. Raises NotFound and Ambiguous."""
    decision_id = resolve("decision", given, beginning(kept, "records", "decision_id", given))
    return decisions_of(kept, [decision_id])[decision_id]


def beginning(kept: Kept, table: str, column: str, given: str) -> list[str]:
    """The id if it exists, else those with this prefix: only some of many, as they are ambiguous anyway."""
    for op in ("=", "begins"):
        if found := kept.values(table, column, (column, op, given), limit=SHOWN + 2):
            return found
    return []
