"""Cursor: conversations and their messages ("bubbles") as JSON values of one database of keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from haltline.streams.importing.database import rows, value_in
from haltline.streams.importing.messages import args_of
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, tokens, turn
from haltline.streams.importing.values import inside, moment, objects

TABLES: Final = frozenset({"cursorDiskKV"})
"""The tables of such a database."""
_CONVERSATIONS = "SELECT value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
_MESSAGE = "SELECT value FROM cursorDiskKV WHERE key = ?"
_TOKENS = TokenNames("inputTokens", "outputTokens")
_USER = 1
"""The type of the user's messages."""
_ENDED = {"completed": False, "success": False, "error": True, "cancelled": None}
"""Statuses of a call that has a result, and whether it failed (None: unknown, as it was cancelled)."""


def parts_of_database(path: Path) -> Iterator[Part]:
    """Yield the conversations in order of their keys. Raises NotReadable for a damaged file."""
    for (raw,) in list(rows(path, _CONVERSATIONS)):
        conversation = _json(raw)
        name = inside(conversation, "composerId")
        if isinstance(name, str):
            yield Part(name, _steps(_messages(path, name, conversation)))


def _messages(path: Path, name: str, conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages: a list in the conversation before 2025, and one key for each since then."""
    yield from objects(conversation.get("conversation"))
    for header in objects(conversation.get("fullConversationHeadersOnly")):
        for (raw,) in rows(path, _MESSAGE, f"bubbleId:{name}:{header.get('bubbleId')}"):
            yield from objects([_json(raw)])


def _steps(messages: Iterator[dict[str, Any]]) -> Iterator[Step]:
    for message in messages:
        time_ms = _time(message.get("createdAt"))
        if message.get("type") == _USER:
            yield prompted(message.get("text"), time_ms)
            continue
        model = inside(message, "modelInfo", "modelName")
        yield from turn(tokens(message.get("tokenCount"), _TOKENS), model, message.get("text"), time_ms)
        call = message.get("toolFormerData")
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            yield from _call(call, time_ms)


def _call(call: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
    call_id, status = call.get("toolCallId"), call.get("status")
    yield proposed(call_id, call["name"], args_of(call.get("rawArgs") or call.get("params")), time_ms)
    if status in _ENDED:
        failed = _ENDED[status]
        output = (call.get("error") if failed else None) or call.get("result")
        yield ended(call_id, output, time_ms, failed=failed)


def _json(raw: object) -> Any:
    return value_in(raw.decode(errors="replace") if isinstance(raw, bytes) else raw)


def _time(value: object) -> int | None:
    """Return the time of an ISO text, or of epoch milliseconds, as in older releases."""
    return moment(value / 1000 if isinstance(value, int | float) else value)
