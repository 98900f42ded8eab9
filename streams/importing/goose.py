"""goose: sessions as rows of a database, before October 2025 as JSON lines."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.producers.any_json import text_of_blocks
from haltline.schemas.events import Kind
from haltline.streams.importing.database import rows, sessions, tables, value_in
from haltline.streams.importing.messages import text_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, ended, prompted, proposed, turn, usage_of
from haltline.streams.importing.values import count, inside, moment, objects

TABLES: Final = frozenset({"sessions", "messages"})
"""The tables of such a database."""
_EARLIEST_MS = 100_000_000_000
"""Times are seconds in some releases, and milliseconds in others."""
_MESSAGES = (
    "SELECT role, content_json, created_timestamp FROM messages WHERE session_id = ? ORDER BY created_timestamp, id"
)
_TURNS = (
    "SELECT created_timestamp, model, input_tokens, output_tokens, cache_read_tokens, cost FROM usage_ledger"
    " WHERE session_id = ? ORDER BY created_timestamp, id"
)


def shows(content: Content) -> bool:
    """Return whether the file has the lines of a session."""
    return any("working_dir" in one for one in content.head[:1]) and any("created" in one for one in content.head[1:])


def parts(source: Source) -> Iterator[Part]:
    """Yield the session of a file, named by the file."""
    messages = ((line.get("role"), line.get("content"), line.get("created")) for line in source.lines if "role" in line)
    yield Part(source.path.stem, _steps(messages))


def parts_of_database(path: Path) -> Iterator[Part]:
    """Yield the sessions of a database. Raises NotReadable for a damaged file."""
    has_turns = "usage_ledger" in tables(path)
    for session_id, folder in list(sessions(path, "sessions", "working_dir")):
        name = str(session_id)
        messages = ((role, value_in(content), at) for role, content, at in rows(path, _MESSAGES, name))
        turns = chain.from_iterable(map(_turn, rows(path, _TURNS, name))) if has_turns else ()
        steps = [*_steps(messages), *turns]
        yield Part(name, sorted(steps, key=lambda step: (step.time_ms or 0, step.kind is Kind.MODEL_TURN)), folder)


def _steps(messages: Iterable[tuple[object, object, object]]) -> Iterator[Step]:
    for role, content, at in messages:
        time_ms = _time(at)
        for block in objects(content):
            call_id = block.get("id")
            if block.get("type") == "toolRequest":
                call = _inner(block, "toolCall", "tool_call")
                value = inside(call, "value")
                yield proposed(call_id, inside(value, "name"), inside(value, "arguments"), time_ms)
            elif block.get("type") == "toolResponse":
                yield _end(call_id, _inner(block, "toolResult", "tool_result"), time_ms)
        if role == "user" and not any("tool" in str(one.get("type")) for one in objects(content)) and text_of(content):
            yield prompted(text_of(content), time_ms)


def _inner(block: dict[str, Any], *names: str) -> object:
    return next((block[name] for name in names if name in block), None)


def _end(call_id: object, result: object, time_ms: int | None) -> Step:
    value = inside(result, "value")
    failed = inside(result, "status") == "error" or inside(value, "isError") is True
    content = inside(value, "content") if isinstance(value, dict) else value
    output = inside(result, "error") if inside(result, "status") == "error" else text_of_blocks(content)
    return ended(call_id, output, time_ms, failed=failed)


def _turn(row: tuple[Any, ...]) -> Iterator[Step]:
    at, model, whole, out, cached, cost = row
    return turn(usage_of(whole, out, cached=cached, cost=cost), model, None, _time(at))


def _time(value: object) -> int | None:
    """Return the time of epoch seconds or milliseconds."""
    at = count(value)
    return moment(at / 1000 if at > _EARLIEST_MS else at) if at else None
