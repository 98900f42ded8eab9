"""The calls that matter in a program, by their names: the rows of `commands/rows/calls.txt`.

Misses: functions and methods that the program names itself; clients whose methods are not named after their effect.
"""

from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache

from haltline.detectors.commands.rows import cells_of, expression_of, words_of
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

_LONE = frozenset(("delete", "drop", "destroy", "remove", "Delete", "Drop", "del", "truncate", "flushall", "flushdb"))
_STORES = expression_of("an owner is a store", re.IGNORECASE)
_HARMLESS_BASES = expression_of("an owner is in memory")
_STRONG = words_of("verbs of methods that destroy")
_NOT_DATA = words_of("methods on what is in memory")
_DESCRIBES = frozenset(("DeleteModel",))
"""Migration operations: constructing one has no effect, another call executes it."""
_NOUNS_OF_CODE = frozenset(("column", "columns", "vars", "attr", "item", "key", "prefix", "whitespace", "char", "nan"))
_IN_MEMORY = re.compile(r"['\"]:memory:['\"]|sqlite(?:\+\w+)?:///?(?::memory:)?['\"]")
_ELSEWHERE = expression_of("a program connects to another database", re.IGNORECASE)
"""Signs of a connection to another database, or to a service."""
_MAKES_TABLES = re.compile(r":memory:|\bcreate_(?:model|all)\(")
_CLASS = re.compile(r"^[ \t]*class (\w+)\(", re.MULTILINE)
_MAX_PARTS = 4


def _rows() -> dict[tuple[str, str], frozenset[str]]:
    """Return what a call is by `whole` or `any` and its name."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for what, how, names in cells_of("calls"):
        for name in names.split():
            found[how, name].add(what)
    return {key: frozenset(value) for key, value in found.items()}


_ROWS = _rows()


_BY_LAST: dict[str, list[tuple[frozenset[str], frozenset[str]]]] = defaultdict(list)
for (_, _name), _kinds in _ROWS.items():
    _BY_LAST[_name.rpartition(".")[2]].append((frozenset(_name.split(".")[:-1]), _kinds))


def ending_with(word: str) -> Collection[tuple[frozenset[str], frozenset[str]]]:
    """Return, for each call whose name ends with this word, the other words of its name and what it is."""
    return _BY_LAST.get(word, ())


@lru_cache(maxsize=4096)
def kinds(ref: str) -> frozenset[str]:
    """Return what a call is, by its name; see the head of the rows."""
    parts = ref.split(".")
    found = set(_ROWS.get(("any", parts[-1]), ()))
    for count in range(2, min(len(parts), _MAX_PARTS) + 1):
        found |= _ROWS.get(("whole", ".".join(parts[-count:])), frozenset())
    if len(parts) == 1:
        found |= _ROWS.get(("whole", ref), frozenset())
    return frozenset(found)


def removes_or_runs(ref: str) -> bool:
    """Return whether a function removes its argument or runs it."""
    return not kinds(ref).isdisjoint(("path", "tree", "shell", "words"))


def keeps_in_memory(program: str) -> bool:
    """Return whether a program's only database is in memory, so that its data ends with the program."""
    return _IN_MEMORY.search(program) is not None and _ELSEWHERE.search(program) is None


def own_models(program: str) -> frozenset[str]:
    """Return the targets of a program's own models, if it creates their tables: their rows are its own."""
    if "class " not in program or _MAKES_TABLES.search(program) is None:
        return frozenset()
    return frozenset(f"model={name}" for name in _CLASS.findall(program))


def takes_away(ref: str, *, named: bool) -> str:
    """Return the verb of a destructive method name. `named`: a keyword argument names the target."""
    base, _, last = ref.rpartition(".")
    if last in _LONE:
        if _HARMLESS_BASES.match(base) is not None or not base:
            return ""
        if base[:1].isupper() and last in ("destroy", "truncate") and base.replace(".", "_").isidentifier():
            return last  # a model
        return last.lower() if _STORES.search(base) is not None or (named and last.lower() == "delete") else ""
    if last in ("delete_all", "destroy_all") and base[:1].isupper():
        return last
    verbs = () if last in _DESCRIBES else words(last)
    if verbs[-1:] == ("command",):  # `new DeleteObjectCommand({...})`
        verbs = verbs[:-1]
    if len(verbs) < 2 or "_".join(verbs) in _NOT_DATA or not _NOUNS_OF_CODE.isdisjoint(verbs):
        return ""
    verb = destroying_verb("_".join(verbs))
    if verb == "remove" and not {"table", "bucket", "database", "collection"}.isdisjoint(verbs):
        return "_".join(verbs)
    return "_".join(verbs) if verb in _STRONG else ""
