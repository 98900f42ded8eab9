"""Messages of models and users, in the forms in which agents keep them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from haltline.streams.importing.values import id_of, objects

_MAX_DEPTH = 12
_WRAPPERS = ("message", "content")
"""Fields that contain a message or its content; the first existing one is used."""


class Proposal(NamedTuple):
    """A call proposed by a model."""

    call_id: str | None
    name: str
    args: dict[str, Any] | None


def args_of(value: object) -> dict[str, Any] | None:
    """Return the arguments of a call: an object, or its JSON text. None: neither."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None


def parsed(value: Any) -> Any:
    """Return the object or list of a JSON text; another value is returned unchanged."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def text_of(value: object, depth: int = 0) -> str:
    """Return the text of a message, or of its content."""
    if isinstance(value, str):
        return value
    if depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "\n".join(text for one in value if (text := text_of(one, depth + 1)))
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("text"), str) and value.get("type") in (None, "text", "output_text"):
        return str(value["text"])
    found = next((value[name] for name in _WRAPPERS if value.get(name) is not None), None)
    return text_of(found, depth + 1)


def proposals(content: object) -> Iterator[Proposal]:
    """Yield the calls among the blocks of a message."""
    for block in objects(content):
        if block.get("type") == "tool_use" and isinstance(block.get("name"), str):
            yield Proposal(id_of(block.get("id")), block["name"], args_of(block.get("input")))
