"""pi: a session as JSON lines, which are a tree; what was left for another branch was done nevertheless."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from haltline.interventions.agent.producers.any_json import text_of_blocks
from haltline.streams.importing.messages import text_of
from haltline.streams.importing.reading import Content
from haltline.streams.importing.spans import Part
from haltline.streams.importing.steps import Step, ended, prompted, proposed, turn, usage_of
from haltline.streams.importing.values import count, inside, moment, objects


def shows(content: Content) -> bool:
    """Whether this is such a session."""
    return any(one.get("type") == "session" and isinstance(one.get("cwd"), str) for one in content.head)


def parts(lines: Iterable[dict[str, Any]], _path: Path) -> Iterator[Part]:
    """The session."""
    named = next((line.get("id") for line in lines if line.get("type") == "session"), None)
    yield Part(named, _steps(lines))


def _steps(lines: Iterable[dict[str, Any]]) -> Iterator[Step]:
    for line in lines:
        message, time_ms = line.get("message"), moment(line.get("timestamp"))
        if line.get("type") != "message" or not isinstance(message, dict):
            continue
        role, call_id = message.get("role"), message.get("toolCallId")
        if role == "user":
            yield prompted(time_ms)
        elif role == "assistant":
            yield from _turn(message, time_ms)
        elif role == "toolResult" and isinstance(call_id, str):
            failed = message.get("isError") is True
            yield ended(call_id, text_of_blocks(message.get("content")), time_ms, failed=failed)


def _turn(message: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
    used, model = message.get("usage"), message.get("model")
    cached = count(inside(used, "cacheRead"))
    whole = count(inside(used, "input")) + cached + count(inside(used, "cacheWrite"))
    usage = usage_of(whole, inside(used, "output"), cached=cached, cost=inside(used, "cost", "total"))
    yield from turn(usage, model, text_of(message.get("content")), time_ms)
    for block in objects(message.get("content")):
        if block.get("type") == "toolCall":
            yield proposed(block.get("id"), block.get("name"), block.get("arguments"), time_ms)
