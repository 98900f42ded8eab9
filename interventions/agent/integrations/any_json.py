"""JSON that others wrote, also where a strict reader refuses what its own reader takes: NaN, half a surrogate pair.

What cannot be read is not seen, so whoever watches has to read all that the watched one reads.
"""

import json
from typing import Any

import orjson


def parsed(data: bytes) -> Any:
    """The JSON, also what strict readers do not read.

    Raises:
        ValueError: it is none; or it is nested so deeply that nobody reads it.

    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def written(message: Any, *, sort_keys: bool = False) -> bytes:
    """The JSON of a message, also of one that only `parsed` reads."""
    try:
        return orjson.dumps(message, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:  # a surrogate, or a whole number of more than 64 bits
        return json.dumps(message, sort_keys=sort_keys).encode()


def readable(data: bytes) -> Any:
    """As `parsed`, each half of a surrogate pair replaced by `?`, and what is no number (NaN) by None.

    Raises:
        ValueError: as `parsed`.

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
    """A result: of text blocks only as one text."""
    if isinstance(content, list) and all(isinstance(b, dict) and isinstance(b.get("text"), str) for b in content):
        return "\n".join(block["text"] for block in content)
    return content
