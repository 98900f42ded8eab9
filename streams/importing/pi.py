"""pi: a session as JSON lines that form a tree; calls of abandoned branches count too, as they were made."""

from collections.abc import Iterable, Iterator
from typing import Any

from haltline.interventions.agent.producers.any_json import text_of_blocks
from haltline.streams.importing.messages import text_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, turn_of
from haltline.streams.importing.values import moment, objects

_TOKENS = TokenNames("input cacheRead cacheWrite", "output", "cacheRead", "cost.total", "cacheWrite")


def shows(content: Content) -> bool:
    """Return whether the file is such a session."""
    return any(one.get("type") == "session" and isinstance(one.get("cwd"), str) for one in content.head)


def parts(source: Source) -> Iterator[Part]:
    """Yield the session."""
    named = next((line.get("id") for line in source.lines if line.get("type") == "session"), None)
    yield Part(named, _steps(source.lines))


def _steps(lines: Iterable[dict[str, Any]]) -> Iterator[Step]:
    for line in lines:
        message, time_ms = line.get("message"), moment(line.get("timestamp"))
        if line.get("type") != "message" or not isinstance(message, dict):
            continue
        role, call_id = message.get("role"), message.get("toolCallId")
        if role == "user":
            yield prompted(text_of(message.get("content")), time_ms)
        elif role == "assistant":
            yield from _turn(message, time_ms)
        elif role == "toolResult" and isinstance(call_id, str):
            failed = message.get("isError") is True
            yield ended(call_id, text_of_blocks(message.get("content")), time_ms, failed=failed)


def _turn(message: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
    yield from turn_of(message.get("usage"), _TOKENS, message.get("model"), text_of(message.get("content")), time_ms)
    for block in objects(message.get("content")):
        if block.get("type") == "toolCall":
            yield proposed(block.get("id"), block.get("name"), block.get("arguments"), time_ms)
