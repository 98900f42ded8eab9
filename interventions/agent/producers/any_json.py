"""JSON from other programs, also where strict parsers reject what those programs accept: NaN, lone surrogates.

A watcher must parse everything that the watched program parses.
"""

import json
from typing import Any

import orjson


def parsed(data: bytes) -> Any:
    """Parse JSON, including forms that strict parsers reject.

    Raises: ValueError: it is invalid, or nested too deeply.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def written(message: Any, *, sort_keys: bool = False) -> bytes:
    """Serialize a message, including values that only `parsed` reads."""
    try:
        return orjson.dumps(message, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:  # a surrogate, or an integer of more than 64 bits
        return json.dumps(message, sort_keys=sort_keys).encode()


def readable(data: bytes) -> Any:
    """Like `parsed`, replacing lone surrogates by `?`, and NaN and infinities by None.

    Raises: ValueError: like `parsed`.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(data, parse_constant=lambda _: None)
            return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def text_of_blocks(content: object) -> object:
    """Return the content of a result; text blocks are joined into one text."""
    if isinstance(content, list) and all(isinstance(b, dict) and isinstance(b.get("text"), str) for b in content):
        return "\n".join(block["text"] for block in content)
    return content
