"""Comparison of targets that may be spelled differently: case, quotes, qualification, another key, nesting.

Misses: names that only their system can resolve to one thing (an id and a name); paths of case-insensitive file
    systems.
"""

from functools import lru_cache

from haltline.schemas import expressions as re

_LOCAL = frozenset(("path", "device", "worktree", "stash", "history", "unknown"))
"""Kinds whose names are compared exactly."""
_QUOTES = re.compile(r"[\"'`\[\]]")
_DISTINCTIVE = re.compile(r"\A(?:[a-z][\w-]{3,}|[^\Wa-z_]*[a-z_-](?:[^\W\d]|-)*\d[\w-]*)")
_BELOW = re.compile(r"(?:/\*{1,2}|/\.){1,16}/?\Z|/\Z")
_TELLING_CHARS = 3
"""Characters of a name that says something at the end of an address."""
_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)*")


@lru_cache(maxsize=4096)
def plain(target: str) -> tuple[str, str]:
    """The kind and the normalized name of a target."""
    kind, _, name = target.partition("=")
    if kind in _LOCAL:
        return kind, _BELOW.sub("", name) or name
    if "," in name and "=" in name:  # `database=d,schema=s,table=t`
        parts = [part.partition("=") for part in target.split(",")]
        if all(equals for _, equals, _ in parts):
            return parts[-1][0], ".".join(value for _, _, value in parts).lower()
    return kind, _QUOTES.sub("", name).strip().lower()


def same(one: str, other: str) -> bool:
    """Return whether two targets are the same thing."""
    kind, name = plain(one)
    kind_, name_ = plain(other)
    if name != name_:
        if kind in _LOCAL or kind_ in _LOCAL or not _is_end_of(name, name_):
            return False
    elif kind in _LOCAL or kind_ in _LOCAL:
        return kind == kind_
    return kind == kind_ or _DISTINCTIVE.fullmatch(name.rpartition(".")[2]) is not None


def names(target: str, other: str) -> bool:
    """Return whether a target is the same as another, or names it: the address of `branch=main` ends with `/main`."""
    if same(target, other):
        return True
    kind, name = plain(other)
    kind_, place = plain(target.partition("?")[0])
    if kind == "k8s":
        name = name.partition("/")[2].partition("@")[0]
    if kind in _LOCAL or kind_ in _LOCAL or len(name) < _TELLING_CHARS:
        return False
    return place == name or place.endswith((f"/{name}", f"={name}"))


def _is_end_of(one: str, other: str) -> bool:
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(f".{shorter}") and _NAME.fullmatch(longer) is not None
