"""Qwen Code: a session as JSON lines, of messages in Gemini's form."""

from collections.abc import Iterable, Iterator
from typing import Any

from haltline.schemas.events import Outcome
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, turn_of
from haltline.streams.importing.values import inside, moment, objects

_TOKENS = TokenNames("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount")


def shows(content: Content) -> bool:
    """Return whether the file is such a session."""
    return any(
        isinstance(line.get("sessionId"), str) and isinstance(inside(line, "message", "parts"), list)
        for line in content.head
    )


def parts(source: Source) -> Iterator[Part]:
    """Yield the session."""
    named = next((line["sessionId"] for line in source.lines if isinstance(line.get("sessionId"), str)), None)
    yield Part(named, _steps(source.lines))


def _steps(lines: Iterable[dict[str, Any]]) -> Iterator[Step]:
    for line in lines:
        time_ms, said = moment(line.get("timestamp")), objects(inside(line, "message", "parts"))
        text = "\n".join(str(part["text"]) for part in said if part.get("text") and part.get("thought") is not True)
        kind = line.get("type")
        if kind == "user" and text:
            yield prompted(text, time_ms)
        elif kind == "assistant":
            yield from turn_of(line.get("usageMetadata"), _TOKENS, line.get("model"), text, time_ms)
            for call in objects([part.get("functionCall") for part in said]):
                yield proposed(call.get("id"), call.get("name"), call.get("args"), time_ms)
        elif kind == "tool_result":
            yield _end(line, said, time_ms)


def _end(line: dict[str, Any], said: list[dict[str, Any]], time_ms: int | None) -> Step:
    result = line.get("toolCallResult")
    answered = next((one["functionResponse"] for one in said if isinstance(one.get("functionResponse"), dict)), None)
    response, status = inside(answered, "response"), inside(result, "status")
    output = inside(response, "output") or inside(response, "error") or inside(result, "resultDisplay")
    failed = status == "error" or bool(inside(response, "error"))
    done = ended(inside(result, "callId") or inside(answered, "id"), output, time_ms, failed=failed)
    if status == "cancelled":
        done.outcome = Outcome.REFUSED
    return done
