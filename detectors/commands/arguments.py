"""The arguments of a call: with those nested in them, and those given as JSON text.

Misses: what is nested deeper than `MAX_DEPTH`, or in a longer JSON text than `MAX_JSON_CHARS`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from haltline.detectors.commands.rows import words_of
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import words

MAX_CALLS = 64
"""The maximum number of calls read from one dispatcher."""
MAX_DEPTH = 4
_MAX_NODES = 512
MAX_JSON_CHARS = 64 * 1024
MAX_ID_CHARS = 480
_NOT_A_NAME = words_of("arguments about the call")


def decoded(value: Any) -> Any:
    """Return a value, decoded if it is a JSON text."""
    if isinstance(value, str) and value[:1] in "{[" and 2 <= len(value) <= MAX_JSON_CHARS:
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def things(args: JsonObject | None, ranks: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return kind and name of each target in the arguments, nested ones included; the most specific kind only."""
    best: dict[tuple[str, str], None] = {}
    rank = len(ranks) + 2
    for key, value in pairs(args):
        kind = _kind(key)
        if kind in _NOT_A_NAME or not is_name(value):
            continue
        its = ranks.get(kind, len(ranks) if kind.endswith(_ID_ENDS) else len(ranks) + 1)
        if its < rank:
            best, rank = {}, its
        if its == rank:
            for name in _split(key, value):
                best[kind, name] = None
    return list(best)[: 4 * MAX_CALLS]


_ID_ENDS = ("id", "name", "key", "arn", "uri", "urn", "url", "path", "bucket", "table", "target")


def _split(key: str, value: str | int) -> list[str]:
    if isinstance(value, str) and "," in value and key.lower().endswith("s") and "(" not in value:
        return [part.strip() for part in value.split(",") if part.strip()][:MAX_CALLS]
    return [str(value).strip()]


def snake(key: str) -> str:
    """Return the name of an argument in `snake_case`."""
    return "_".join(words(key)) if not (key.isascii() and key.islower() and key.isidentifier()) else key


def in_snake(args: JsonObject) -> JsonObject:
    """Return the arguments with `snake_case` names."""
    return args if all(map(str.islower, args)) else {snake(key): value for key, value in args.items()}


def _kind(key: str) -> str:
    """Return the singular of a key: `assetIds` is `asset_id`."""
    name = snake(key)
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and name not in ("args", "status") else name


def is_name(value: Any) -> bool:
    """Return whether a value may be an object's name."""
    if isinstance(value, str):
        return 0 < len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool)


def objects_of(args: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the arguments and the objects in them, down to a maximum depth."""
    waiting: list[tuple[Any, int]] = [(args, 0)]
    seen = 0
    while waiting and seen < _MAX_NODES:
        inner, depth = waiting.pop(0)
        seen += 1
        if isinstance(inner, dict):
            yield inner
            if depth < MAX_DEPTH:
                for value in inner.values():
                    held = decoded(value)
                    if isinstance(held, dict):
                        waiting.append((held, depth + 1))
                    elif isinstance(held, list):
                        waiting += [(item, depth + 1) for item in held[:MAX_CALLS] if isinstance(item, dict)]


def pairs(args: JsonObject | None) -> Iterator[tuple[str, Any]]:
    """Return every scalar value with the name of its argument."""
    waiting: list[tuple[str, Any, int]] = [(key, value, 0) for key, value in (args or {}).items()]
    seen = 0
    while waiting and seen < _MAX_NODES:
        key, value, depth = waiting.pop(0)
        seen += 1
        value = decoded(value)
        if isinstance(value, dict):
            if depth < MAX_DEPTH:
                prefix = _kind(key)
                waiting += [
                    (f"{prefix}_{name}" if name in ("id", "name") else str(name), item, depth + 1)
                    for name, item in value.items()
                ]
        elif isinstance(value, list):
            waiting += [(key, item, depth + 1) for item in value[:_MAX_NODES]] if depth < MAX_DEPTH else []
        else:
            yield key, value


def leaves(value: Any) -> Iterator[Any]:
    """Return the scalar values of an object, at any depth."""
    if isinstance(value, dict):
        for _, leaf in pairs(value):
            yield leaf
