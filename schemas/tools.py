"""What is known of the tools of the common agents, and of the names and arguments of all others: `tools.toml`.

What an argument means depends on the operation that the call names: beside `command: "str_replace"`, an editor's
`file_text` means nothing, whatever its value. A description applies to a call only if the arguments are those of the
tool; a tool of another kind with the same name is read like any unknown one.

Misses: tools that their users renamed, unless they are called like an editor; operations that are not listed.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

from haltline.schemas import expressions as re
from haltline.schemas.events import Effect
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import folded, words

_LAST_PART: Final = re.compile(r"__|[./:]")
_MAX_NAME_CHARS: Final = 512
_EMPTY: Final[tuple[Any, ...]] = ("", None, [], {})


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation of a tool: what it does, and what its arguments mean. Their names are as calls spell them."""

    effect: Effect | None
    """None: only its arguments show it."""
    runs: str
    """The kind of text that it executes: `shell`, `sql`, `plain`; empty: none."""
    target: tuple[str, ...]
    """A file, a page, an id."""
    text: tuple[str, ...]
    """What it executes."""
    blank: "Operation | None"
    """What it is instead where that text is empty."""
    content: tuple[str, ...]
    """The whole new content of the target."""
    old: tuple[str, ...]
    new: tuple[str, ...]
    """The part that is replaced, and the part that is put in."""
    patch: tuple[str, ...]
    """A patch that names its files itself."""
    required: frozenset[str]
    """One of these shows that a call is one of this tool; empty: nothing but its name."""
    optional: frozenset[str]
    """An empty value of these counts as absent."""
    unused: frozenset[str]
    """Arguments of the tool's other operations, and texts about the call."""
    known: frozenset[str]
    """All arguments of the tool."""
    paths: tuple[str, ...]
    """Those of `target` that are files or folders."""

    @property
    def edits(self) -> bool:
        """Return whether it changes the text of files."""
        return bool(self.patch) or bool(self.paths and (self.content or self.old or self.new))

    def used(self, args: JsonObject) -> JsonObject:
        """Return the arguments that the operation uses."""
        if self.unused.isdisjoint(args) and (
            self.optional.isdisjoint(args) or not any(args[name] in _EMPTY for name in self.optional & args.keys())
        ):
            return args
        return {
            name: value
            for name, value in args.items()
            if name not in self.unused and (name not in self.optional or value not in _EMPTY)
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Described:
    by: tuple[str, ...]
    without: str
    operations: Mapping[str, Operation]
    """By name in lower case; a tool without `by` has one, of no name."""
    says: str

    def operation(self, args: Mapping[str, Any]) -> Operation | None:
        """Return the operation that a call names; None: it names none, or is a call of another tool."""
        named = self.without
        for name in self.by:
            if name in args:
                named = str(args[name]).lower()
                break
        found = self.operations.get(named)
        if found is None:
            return None
        if found.blank is not None and any(args.get(name) == "" for name in found.text):
            return found.blank
        fits = found.runs or not found.required.isdisjoint(args) or found.known.issuperset(args)
        return found if fits else None


@dataclass(frozen=True, slots=True)
class Names:
    """Names of tools that have an effect in common, by globs in lower case."""

    globs: tuple[str, ...]
    effect: Effect
    runs: str
    is_certain: bool


def operation_of(action: str, args: Mapping[str, Any]) -> Operation | None:
    """Return the described operation that a call is one of; None: the tool is not described, or called otherwise."""
    described = _described(action) if len(action) <= _MAX_NAME_CHARS else None
    if described is not None:
        return described.operation(args)
    for shape in _tables().shapes:
        if not args.keys().isdisjoint(shape.by) and (found := shape.operation(args)) is not None:
            return None if found.required.isdisjoint(args) else found
    return None


def used(action: str, args: JsonObject) -> JsonObject:
    """Return the arguments that the operation of a call uses; of a tool that is not described, all of them."""
    operation = operation_of(action, args)
    return args if operation is None else operation.used(args)


@lru_cache(maxsize=4096)
def effect_of(action: str) -> tuple[Effect | None, str]:
    """Return the effect of a described tool by its name, the strongest of its operations, and the text it runs."""
    described = _described(action)
    if described is None:
        return None, ""
    known = [one for one in described.operations.values() if one.effect is not None]
    strongest = max(known, key=lambda one: one.effect.rank if one.effect is not None else 0, default=None)
    return (None, "") if strongest is None else (strongest.effect, strongest.runs)


@lru_cache(maxsize=1024)
def ends_turn(action: str) -> bool:
    """Return whether a tool with this name ends the turn, reports, or asks the user, and does nothing else.

    Only by its whole name: `mcp__orders__submit` is a tool of somebody else.
    """
    return says(action) in ("reports", "asks")


@lru_cache(maxsize=1024)
def says(action: str) -> str:
    """Return what a tool with this name only says: `reports`, `asks`, `plans`, `thinks`; empty: it does something."""
    described = _tables().tools.get(_key(action))
    return "" if described is None else described.says


@lru_cache(maxsize=1024)
def thinks(action: str) -> bool:
    """Return whether an agent only thinks or talks to itself with a tool of this name."""
    return says(action) == "thinks"


def names() -> tuple[Names, ...]:
    """Return the names of tools that are not described; the first match applies."""
    return _tables().names


def certain(effect: Effect) -> tuple[str, ...]:
    """Return the globs over names of tools that have an effect for certain, whatever their arguments."""
    return tuple(glob for group in names() if group.is_certain and group.effect is effect for glob in group.globs)


def stores() -> tuple[str, ...]:
    """Return the globs over names of tools that certainly do not execute their input."""
    return _tables().stores


def arguments(kind: str) -> tuple[str, ...]:
    """Return the names that arguments of a kind have in tools that are not described, the most specific first."""
    return _tables().arguments[kind]


@lru_cache(maxsize=4096)
def starts_agents(action: str) -> bool:
    """Return whether a tool with this name starts other agents, if it is called like one that does."""
    starts = _tables().starts
    return _key(action) in starts or _key(_LAST_PART.split(folded(action).strip())[-1]) in starts


def task_of_started(action: str, args: Mapping[str, Any] | None) -> str:
    """Return what the agent that a call starts is to do, as text; empty: it starts none."""
    if not args or not starts_agents(action):
        return ""
    tables = _tables()
    if any(args.get(name) for name in tables.resumes):
        return ""
    return next((str(args[name]) for name in tables.given if args.get(name)), "")


@lru_cache(maxsize=4096)
def _described(action: str) -> _Described | None:
    tools = _tables().tools
    found = tools.get(_key(action))
    if found is not None:
        return found
    *before, last = _LAST_PART.split(folded(action).strip())
    if not before:
        return None
    named = tools.get(_key(before[-1]))  # `text_editor.view`: a recorder has added the operation
    if named is not None and last.lower() in named.operations:
        return named
    return tools.get(_key(last))


def _key(name: str) -> str:
    return "".join(words(name))


@dataclass(frozen=True, slots=True)
class _Tables:
    tools: Mapping[str, _Described]
    shapes: tuple[_Described, ...]
    names: tuple[Names, ...]
    stores: tuple[str, ...]
    starts: frozenset[str]
    given: tuple[str, ...]
    resumes: tuple[str, ...]
    arguments: Mapping[str, tuple[str, ...]]


@cache
def _tables() -> _Tables:
    data = tomllib.loads((files(__package__) / "tools.toml").read_text(encoding="utf-8"))
    kinds = {kind: tuple(dict.fromkeys(listed.split())) for kind, listed in data["arguments"].items()}
    kinds["path"] = _spelled(data["arguments"]["path"])
    paths = frozenset(kinds["path"])
    tools: dict[str, _Described] = {}
    shapes: list[_Described] = []
    for row in data["tool"]:
        described = _read(row, paths)
        for name in row["names"].split():
            if tools.setdefault(_key(name), described) is not described:
                raise ValueError(f"schemas/tools.toml: {name} is described twice")
        if row.get("shape"):
            shapes.append(described)
    groups = tuple(
        Names(
            tuple(row["globs"].split()), Effect(row.get("effect", Effect.EXEC)), row.get("runs", ""), "certain" in row
        )
        for row in data["name"]
    )
    starts = data["starts"]
    return _Tables(
        tools,
        tuple(shapes),
        groups,
        stores=tuple(data["stores"]["globs"].split()),
        starts=frozenset(map(_key, starts["names"].split())),
        given=_spelled(starts["given"]),
        resumes=_spelled(starts["resumes"]),
        arguments=kinds,
    )


_MEANINGS: Final = ("target", "text", "content", "old", "new", "patch")


def _read(row: Mapping[str, Any], paths: frozenset[str]) -> _Described:
    by = _spelled(row.get("by", ""))
    rows: Mapping[str, Mapping[str, Any]] = row.get("operations", {"": row})
    of_all = _spelled(row.get("also", ""))
    about = _spelled(row.get("about", ""))
    uses = {
        name: {meaning: _spelled(one.get(meaning, "")) for meaning in (*_MEANINGS, "also")}
        for name, one in rows.items()
    }
    everything = frozenset(
        (*by, *of_all, *about, *(n for one in uses.values() for found in one.values() for n in found))
    )
    operations: dict[str, Operation] = {}
    for name, one in uses.items():
        effect = rows[name].get("effect", Effect.EXEC if "runs" in rows[name] else None)
        required = frozenset(n for meaning in _MEANINGS for n in one[meaning])
        mine = required.union(by, of_all, one["also"])
        operation = Operation(
            effect=None if effect is None else Effect(effect),
            runs=rows[name].get("runs", ""),
            blank=None,
            **{meaning: one[meaning] for meaning in _MEANINGS},
            required=required,
            optional=frozenset((*of_all, *one["also"])) - required - frozenset(by),
            unused=everything - mine,
            known=everything,
            paths=tuple(filter(paths.__contains__, one["target"])),
        )
        if "blank" in rows[name]:
            blank = replace(operation, effect=Effect(rows[name]["blank"]), runs="", text=())
            operation = replace(operation, blank=blank)
        operations[name] = operation
    return _Described(by, row.get("without", ""), operations, row.get("says", ""))


def _spelled(names_in_snake: str) -> tuple[str, ...]:
    """Return every spelling of each name: `file_path`, `filePath`, `FilePath`."""
    return tuple(dict.fromkeys(spelled for name in names_in_snake.split() for spelled in _spellings(name)))


def _spellings(name: str) -> Iterable[str]:
    first, *others = name.split("_")
    rest = "".join(part.capitalize() for part in others)
    return (name, first + rest, first.capitalize() + rest) if name.isidentifier() else (name,)
