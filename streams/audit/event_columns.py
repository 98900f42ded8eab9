"""The columns of action events, many at once: one loop per column. Pure."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

from haltline.schemas import native, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.audit import summary

_OF_OTHER_FORMATS: Final = frozenset(("content-type", "ce_specversion"))
Headers = tuple[tuple[str, bytes | None], ...]

_SAME_NAMES: Final = (
    "kind", "event_id", "call_id", "session_id", "agent_id", "parent_session_id", "root_session_id", "mission_id",
    "seq", "action", "targets", "effect", "outcome", "error", "duration_ms",
)  # fmt: skip
"""Fields of an event with a column of the same name."""
_values_of: Final = attrgetter(*_SAME_NAMES, "time", "usage")
_USED: Final = ("input_tokens", "output_tokens", "cost_usd")
_used: Final = attrgetter(*_USED)
_ABSENT: Final = (None,) * len(_USED)
_NO_EVENT: Final[Any] = SimpleNamespace(**dict.fromkeys((*_SAME_NAMES, "task", "time", "usage")))


def event_columns(values: Sequence[bytes | None], headers: Sequence[Headers]) -> dict[str, Sequence[Any]]:
    """Return the values' fields by column, and the reasons for those that cannot be read."""
    events: list[native.EventFields | ActionEvent] = []
    errors: dict[int, str] = {}
    for value, pairs in zip(values, headers, strict=True):
        event = ordinary_event(value, pairs) or _in_full(value, pairs)
        if isinstance(event, str):
            errors[len(events)], event = event, _NO_EVENT
        events.append(event)
    *alike, times, usages = zip(*map(_values_of, events), strict=True)
    columns: dict[str, Sequence[Any]] = dict(zip(_SAME_NAMES, alike, strict=True))
    columns["event_time"] = times
    used = zip(*(_used(usage) if usage else _ABSENT for usage in usages), strict=True)
    columns |= zip(_USED, used, strict=True)
    columns["summary"] = [*map(summary.of_event, events)]
    return _with_errors(columns, errors) if errors else columns


def ordinary_event(value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> native.EventFields | None:
    """Return the fields of an event without a task, in native JSON; None if it has to be read by its model."""
    if not value or len(value) > wire.MAX_EVENT_BYTES:
        return None
    if headers and any(name.lower() in _OF_OTHER_FORMATS for name, _ in headers):
        return None
    event = native.fields_of(value)
    return event if event is not None and event.task is None and type(event.time) is int else None


def _with_errors(columns: dict[str, Sequence[Any]], errors: dict[int, str]) -> dict[str, Sequence[Any]]:
    rows = len(columns["kind"])
    for name in unreadable(""):
        cells = list(columns.get(name, (None,) * rows))
        for at, error in errors.items():
            cells[at] = unreadable(error)[name]
        columns[name] = cells
    return columns


def _in_full(value: bytes | None, headers: Headers) -> ActionEvent | str:
    try:
        return wire.decode_event(value, present(headers))
    except Exception as error:
        return why(error)


def why(error: Exception) -> str:
    """Return why a record cannot be read: no record, whatever its content, may block later ones."""
    return str(error) if isinstance(error, wire.InvalidRecord) else f"{type(error).__name__}: {error}"[:2000]


def unreadable(detail: str) -> dict[str, Any]:
    """Return the columns of a record that cannot be read."""
    return {"kind": "unreadable", "decode_error": detail, "summary": f"unreadable: {detail}"}


def present(headers: Headers) -> list[tuple[str, bytes]]:
    """Return the headers that have a value."""
    return [(name, value) for name, value in headers if value is not None]
