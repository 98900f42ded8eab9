"""The filter of actions whose decisions are compared. Pure."""

from collections.abc import Callable, Collection
from typing import Any, Final

import orjson

from haltline.interventions.author_rules.conditions import Unknown, compiled
from haltline.schemas import wire
from haltline.schemas.events import ActionEvent
from haltline.schemas.topics import Topics
from haltline.streams.replay.records import LogRecord

_MAX_CALLS: Final = 100_000
"""The most calls whose results are recognized; the oldest are dropped first."""

Filter = Callable[[LogRecord], bool]


def chosen(topics: Topics, *, tools: Collection[str] = (), where: str | None = None) -> Filter:
    """Return a filter for records that meet both conditions; unreadable ones do not.

    `where` is a condition as in tripwires (`action == "delete_asset" and args.count > 10`), on the fields of actions;
    if it cannot be evaluated on a record, it does not hold.

    Raises:
        ValueError: the condition is invalid; says where, what was expected and what was given.

    """
    condition = compiled(where, frozenset(ActionEvent.model_fields)) if where else None
    calls = _Calls(tools)

    def holds(record: LogRecord) -> bool:
        fields = _fields(record, topics)
        if fields is None or (tools and not calls.holds(fields)):
            return False
        try:
            return condition is None or condition(fields)
        except Unknown:
            return False

    return holds


class _Calls:
    """The calls of some tools: a result names the call and not always the tool."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)
        self._known: dict[tuple[Any, Any], None] = {}

    def holds(self, fields: dict[str, Any]) -> bool:
        call = (fields.get("session_id"), fields.get("call_id"))
        if fields.get("action"):
            if fields["action"] not in self._tools:
                return False
            self._known[call] = None
            if len(self._known) > _MAX_CALLS:
                del self._known[next(iter(self._known))]
            return True
        return fields.get("call_id") is not None and call in self._known


def _fields(record: LogRecord, topics: Topics) -> dict[str, Any] | None:
    try:
        if record.topic == topics.actions and record.headers:
            return wire.decode_event(record.value, record.headers).model_dump(mode="json")
        found = orjson.loads(record.value or b"null")
    except (wire.InvalidRecord, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None
