"""The columns of action events, many at once: one loop per column. Pure."""

from collections.abc import Iterator, Sequence
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
_FIELDS: Final = [(name, attrgetter(name)) for name in _SAME_NAMES]
_USED: Final = [(name, attrgetter(name)) for name in ("input_tokens", "output_tokens", "cost_usd")]
_time_of: Final = attrgetter("time")
_usage_of: Final = attrgetter("usage")
_NO_USAGE: Final[Any] = SimpleNamespace(**dict.fromkeys(name for name, _ in _USED))
_NO_EVENT: Final[Any] = SimpleNamespace(**dict.fromkeys((*_SAME_NAMES, "task", "time", "usage")))


def event_columns(values: Sequence[bytes | None], headers: Sequence[Headers]) -> dict[str, Sequence[Any]]:
    """Return the values' fields by column, and the reasons for those that cannot be read."""
    events: list[Any] = [*ordinary_events(values, headers)]
    errors: dict[int, str] = {}
    for at in [at for at, event in enumerate(events) if event is None]:
        events[at] = _in_full(values[at], headers[at])
        if isinstance(events[at], str):
            errors[at], events[at] = events[at], _NO_EVENT
    columns: dict[str, Sequence[Any]] = {name: [*map(field, events)] for name, field in _FIELDS}
    columns["event_time"] = [*map(_time_of, events)]
    usages = [*map(_usage_of, events)]
    if any(usages):
        used = [usage or _NO_USAGE for usage in usages]
        columns |= {name: [*map(field, used)] for name, field in _USED}
    columns["summary"] = [*map(summary.of_event, events)]
    return _with_errors(columns, errors) if errors else columns


def ordinary_events(values: Sequence[bytes | None], headers: Sequence[Headers]) -> Iterator[native.EventFields | None]:
    """Yield the fields of each event in native JSON; None if it has to be read by its model."""
    readable = [
        b"" if not value or len(value) > wire.MAX_EVENT_BYTES or (pairs and _is_of_another_format(pairs)) else value
        for value, pairs in zip(values, headers, strict=True)
    ]
    return (event if event and type(event.time) is int else None for event in native.fields_of_each(readable))


def _is_of_another_format(headers: Headers) -> bool:
    return any(name.lower() in _OF_OTHER_FORMATS for name, _ in headers)


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
