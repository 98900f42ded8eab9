"""Answers of models and results of tools, in the forms in which frameworks record messages."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from haltline.interventions.agent.integrations.any_json import text_of_blocks
from haltline.streams.importing.values import id_of, inside, objects

_MAX_DEPTH = 12
_WRAPPERS = ("generations", "choices", "message", "kwargs", "data", "update", "messages", "output", "content")
"""Fields that contain a message or its content; the first existing one is used."""


class Proposal(NamedTuple):
    """A call proposed by a model."""

    call_id: str | None
    name: str
    args: dict[str, Any] | None


class Returned(NamedTuple):
    """The result of a tool."""

    content: Any
    call_id: str | None
    is_error: bool


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


def returned(value: object) -> Returned:
    """Return a tool's output; of a tool message of LangChain, its content and the call's id."""
    if isinstance(value, dict) and set(value) == {"output"}:  # LangSmith's wrapper of a value
        value = value["output"]
    message: object = value
    for _ in range(_MAX_DEPTH):
        if isinstance(message, str) and message[:1] == "{":
            message = args_of(message)
        if not isinstance(message, dict):
            break
        if isinstance(message.get("tool_call_id"), str):
            is_error = message.get("status") == "error"
            return Returned(text_of_blocks(message.get("content")), message["tool_call_id"], is_error)
        message = next((message[name] for name in ("output", "kwargs", "data") if name in message), None)
    return Returned(value, None, is_error=False)


def text_of(value: object, depth: int = 0) -> str:
    """Return the text of a model's answer."""
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


def proposals(value: object, depth: int = 0) -> Iterator[Proposal]:
    """Yield the calls of an answer: of OpenAI's chats and responses, of Anthropic, of LangChain's messages."""
    if depth >= _MAX_DEPTH:
        return
    if isinstance(value, list):
        for one in value:
            yield from proposals(one, depth + 1)
    elif isinstance(value, dict):
        if value.get("type") in ("function_call", "tool_use") and isinstance(value.get("name"), str):
            args = value.get("arguments", value.get("input"))
            yield Proposal(id_of(value.get("call_id") or value.get("id")), value["name"], args_of(args))
            return
        listed = objects(value.get("tool_calls"))
        for call in listed:
            name = inside(call, "function", "name") or call.get("name")
            args = inside(call, "function", "arguments") if "function" in call else call.get("args")
            if isinstance(name, str) and name:
                yield Proposal(id_of(call.get("id")), name, args_of(args))
        if not listed:
            found = next((value[name] for name in _WRAPPERS if value.get(name) is not None), None)
            yield from proposals(found, depth + 1)
