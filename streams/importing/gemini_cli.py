"""Gemini CLI: a session as one JSON value, or since 2026 as JSON lines, of which the last one of each id counts."""

from collections.abc import Iterable, Iterator
from typing import Any

from haltline.schemas.events import Outcome
from haltline.streams.importing.messages import text_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, tokens, turn
from haltline.streams.importing.values import inside, moment, objects

_TOKENS = TokenNames("input", "output thoughts", "cached")


def shows(content: Content) -> bool:
    """Return whether the file is such a session."""
    return any(
        isinstance(line.get("sessionId"), str) and isinstance(line.get("projectHash"), str) for line in content.head
    )


def parts(source: Source) -> Iterator[Part]:
    """Yield the session."""
    named: object = None
    messages: dict[object, dict[str, Any]] = {}
    for line in source.lines:
        update = line.get("$set")
        changes: dict[str, Any] = update if isinstance(update, dict) else line
        named = inside(changes, "sessionId") or named
        if "messages" in changes:
            messages = {_key(one, number): one for number, one in enumerate(objects(changes["messages"]))}
        elif "$rewindTo" in line:  # the calls that a user took back were made
            continue
        elif "type" in line:
            messages[_key(line, len(messages))] = line
    yield Part(named, _steps(messages.values()))


def _key(message: dict[str, Any], number: int) -> object:
    return message["id"] if isinstance(message.get("id"), str) else number


def _steps(messages: Iterable[dict[str, Any]]) -> Iterator[Step]:
    for message in messages:
        time_ms = moment(message.get("timestamp"))
        if message.get("type") == "user" and (prompt := text_of(message.get("content"))):
            yield prompted(prompt, time_ms)
        elif message.get("type") == "gemini":
            usage = tokens(message.get("tokens"), _TOKENS)
            yield from turn(usage, message.get("model"), text_of(message.get("content")), time_ms)
            for call in objects(message.get("toolCalls")):
                yield from _call(call, time_ms)


def _call(call: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
    call_id, args, status = call.get("id"), call.get("args"), call.get("status")
    yield proposed(call_id, call.get("name"), args, time_ms)
    if status not in ("success", "error", "cancelled"):
        return
    answers = [inside(part, "functionResponse", "response") for part in objects(call.get("result"))]
    texts = [one.get("output", one.get("error")) for one in answers if isinstance(one, dict)]
    output = texts[0] if len(texts) == 1 else texts or call.get("resultDisplay")
    done = ended(call_id, output, moment(call.get("timestamp")) or time_ms, failed=status == "error")
    if status == "cancelled":
        done.outcome = Outcome.REFUSED
    yield done
