"""The target of a destructive method call: its keywords, an object, its first text, or its owner.

Misses: computed names; unusual keywords that name the target.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

_TELLING = (
    "asset_id", "table", "table_id", "TableName", "Bucket", "bucket", "Key", "key", "name", "Name", "id", "dataset",
    "dataset_id", "collection", "topic", "queue", "QueueUrl", "path", "DBInstanceIdentifier",
)  # fmt: skip
_MAX_NAMES = 32
_MAX_NAME_CHARS = 480


class Texts(Protocol):
    """A value of a program."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The possible texts."""


def named_by(ref: str, base: tuple[str, ...], items: Sequence[Texts], keywords: Mapping[str, Texts]) -> tuple[str, ...]:
    """Return `kind=name` of each target; `kind=*` if the program does not name it."""
    by_name: dict[str, tuple[str, ...]] = {name: value.texts for name, value in keywords.items() if value.texts}
    plain: list[str] = []
    for item in items:
        for text in item.texts:
            plain.append(text)
    found = [f"{name}={text}" for name in _TELLING if name in by_name for text in by_name[name]][:2]
    if found:
        return (",".join(found)[:_MAX_NAME_CHARS],) if len(found) > 1 else (found[0][:_MAX_NAME_CHARS],)
    if by_name:
        name, texts = next(iter(by_name.items()))
        return tuple(f"{name}={text}"[:_MAX_NAME_CHARS] for text in texts[:_MAX_NAMES])
    kind = _kind(ref)
    names = plain or list(base)
    if names:
        return tuple(f"{kind}={text}"[:_MAX_NAME_CHARS] for text in names[:_MAX_NAMES])
    owner = [part for part in ref.split(".")[:-1] if part not in ("objects", "all", "filter", "item", "query", "db")]
    return (f"{kind}={(owner or ['*'])[-1] if kind != 'model' else (owner or ['*'])[0]}"[:_MAX_NAME_CHARS],)


def _kind(ref: str) -> str:
    parts = ref.split(".")
    last = parts[-1].lower()
    for word in ("asset", "table", "bucket", "object", "collection", "database", "topic", "queue", "dataset", "index"):
        if word in last:
            return word
    return "model" if "objects" in parts else "table" if last in ("drop", "delete_many", "deletemany") else "name"
