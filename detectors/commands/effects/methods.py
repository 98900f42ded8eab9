"""Irreversible effects of client methods in programs, by names, owners and arguments: the rows of `methods.txt`.

Misses: clients whose methods are not named after their effect; computed arguments.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.effects.programs import TABLE
from haltline.detectors.commands.effects.tools import begins_act, by_name, by_setting, only_looks
from haltline.detectors.commands.model import ActEffect, listed
from haltline.detectors.commands.rows import cells_of, expression_of, words_of
from haltline.detectors.commands.sql_tokens import holds_for_every_row
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

_SETTERS = ("modify_", "update_", "set_", "put_", "patch_", "scale_")
_SETTERS_OF_CLIENTS = (*(verb[:-1] for verb in _SETTERS), "edit", "create", "insert", "change", "configure", "alter",
                        "copy")  # fmt: skip
_SDKS = words_of("clients of services")
"""Words in module names of service clients."""
_OWNERS = _SDKS | words_of("variables of clients")
_SHORT_OWNERS = frozenset(("core", "v1", "apps", "batch"))
"""Variables of Kubernetes' clients. In a path, such as `vllm.core.evictor`, they say nothing."""
_IMPORTS = re.compile(r"(?:\b(?:import|from|require|use|using|gem|Import-Module)\b)[\s('\"]*(@?[\w./:@-]+)")
_MAX_IMPORTS = 64
_OF_FORM = words_of("form of a call")
"""Words of a method's name that only describe the form of the call."""
_OF_THE_PROGRAM = words_of("inside of a program")
"""Objects inside the program itself."""
_MAX_PROGRAM_CHARS = 16 * 1024
_EVERY_ROW = expression_of("a chain of calls updates every row")
"""A chain of calls that builds a statement without a condition."""
_COMPARES = {
    "gt": ">", "gte": ">=", "neq": "<>", "ne": "<>", "not": "is not", "whereNotNull": "is not", "is_not": "is not",
    "where_not_null": "is not", "whereNot": "<>", "exclude": "<>",
}  # fmt: skip
_WHERE = frozenset(listed("where filter andWhere orWhere whereRaw where_raw match and_where find"))
_LOOKUPS = {"gt": ">", "gte": ">=", "isnull": "is not"}
_NOTHING = frozenset(("None", "null", "nil", "False", "is", ""))


def changes_every_row(chain: str) -> bool:
    """Return whether a chain of calls, without those that exclude no row, updates a table without a condition."""
    return _EVERY_ROW.fullmatch(chain) is not None


def call_excludes_no_row(method: str, plain: list[str], given: Mapping[str, str]) -> bool:
    """Return whether a call that adds a condition to a statement excludes none: `.neq('id', 0)`, `.where('1 = 1')`."""
    compares = _COMPARES.get(method, "")
    if not compares and method not in _WHERE:
        return False
    if given:
        (name, value), *more = given.items()
        column, _, lookup = name.partition("__")
        how = compares or _LOOKUPS.get(lookup, "")
        plain = [] if more or not how else [column, how, value]
    elif compares:
        plain = [plain[0] if plain else "", compares, *(plain[1:] or ("null",))[-1:]]
    if len(plain) not in (1, 3):
        return False
    if len(plain) > 1:
        column, how, value = plain
        number = value.lstrip("-").isdigit()
        if value in _NOTHING:
            how, value = "is not", "null"
        plain = [f"{column} {how} {value if number or value == 'null' else repr(value)}"]
    return plain[0] == "{}" or holds_for_every_row(plain[0])


def reaches_out(program: str) -> bool:
    """Return whether a program imports a client of a remote service."""
    imported = _IMPORTS.findall(program[:_MAX_PROGRAM_CHARS])[:_MAX_IMPORTS]
    return any(not _SDKS.isdisjoint(words(name)) for name in imported)


def _by_words(owner: str, method: str) -> tuple[str, ActEffect] | None:
    """Read the words of a method's name like the name of a tool; a single word is joined with its owner's name."""
    parts = [word for word in words(method) if word not in _OF_FORM]
    if len(parts) == 1:
        parts += words(owner.rpartition(".")[2])
    name = "_".join(parts)
    if parts[:1] == ["trash"]:
        return method, ActEffect.DESTROYS
    if len(parts) < 2 or only_looks(name) or not _OF_THE_PROGRAM.isdisjoint(parts[1:]):
        return None
    return (method, ActEffect.DESTROYS) if destroying_verb(name) == parts[0] else by_name(name, alone=False)


_OPERATIONS = frozenset(chain.from_iterable(row.words[1].split("/") for row in TABLE.rows["aws"] if row.words[1:]))


@lru_cache(maxsize=1024)
def _rows_of(operation: str) -> tuple[rows.Row, ...]:
    return rows.of_operation(TABLE, "aws", operation) if operation in _OPERATIONS and "-" in operation else ()


def _as_options(given: Mapping[str, str]) -> list[str]:
    """Return arguments as options of the command of the same name; `DeletionProtection=False` also as a switch."""
    argv: list[str] = []
    for name, value in given.items():
        option = "-".join(words(name))
        argv += (f"--{option}", value)
        if value.lower() == "false" and "-" in option:
            argv.append(f"--no-{option}")
    return argv


@dataclass(slots=True)
class Method:
    """One call of a client's method in a program."""

    owner: str
    name: str
    given: Mapping[str, str]
    """The keyword arguments."""
    plain: list[str]
    """The positional arguments."""
    everything: bool
    """The first argument is an empty condition."""
    reaches_out: bool
    """The program imports a client of a remote service."""
    last: str = field(init=False)
    """The last part of the owner's name, in lower case."""
    in_snake: str = field(init=False)
    is_outside: bool = field(init=False)
    """The method is that of a remote service."""

    def __post_init__(self) -> None:
        self.last = self.owner.rpartition(".")[2].lower()
        self.in_snake = "_".join(words(self.name.removesuffix("Command")))
        self.is_outside = self.reaches_out or self.last in _SHORT_OWNERS or not _OWNERS.isdisjoint(words(self.owner))

    def holds(self, condition: str) -> bool:
        """Return whether a condition of a row holds."""
        if condition == "everything":
            return self.everything
        if condition[0] == "/":
            expression = rows.pattern(condition[1:-1])
            return any(expression.search(text) for text in (*self.given.values(), *self.plain))
        if condition[0] == "+":
            looked_for = condition[1:].split("/")
            return any(not set(looked_for).isdisjoint(words(text)) for text in (*self.given.values(), *self.plain))
        if condition[-1] == "+":
            return len(self.plain) >= int(condition[:-1])
        names, equals, value = condition.lstrip("!").partition("=")
        if equals:
            return any(self.given.get(name) == value for name in names.split(","))
        has = bool(self.given) if names == "*" else any(name in self.given for name in names.split(","))
        return has is (condition[0] != "!")

    def is_owned(self, owner: str) -> bool:
        """Return whether the cell for the owner in a row holds."""
        if owner in ("imported", "outside"):
            return self.reaches_out if owner == "imported" else self.is_outside
        pattern, _, flag = owner[1:].rpartition("/")
        return not owner or rows.pattern(pattern, re.IGNORECASE * (flag == "i")).search(self.owner) is not None


class _Row(NamedTuple):
    effect: ActEffect | None
    """None: the method is harmless."""
    verb: str
    owner: str
    conditions: tuple[str, ...]


def _read() -> Mapping[str, list[_Row]]:
    rows: dict[str, list[_Row]] = defaultdict(list)
    for act, methods, owner, conditions in cells_of("methods"):
        effect, _, verb = act.partition(" ")
        for method in methods.split():
            kind = None if effect == "harmless" else ActEffect(effect)
            rows[method].append(_Row(kind, verb or "{name}", owner, tuple(conditions.split())))
    return rows


_ROWS = _read()


def of_method(it: Method) -> tuple[str, ActEffect] | None:
    """Return a method's verb and irreversible effect, or None."""
    of_command = _rows_of(it.in_snake.replace("_", "-")) if it.given else ()
    if of_command and (it.is_outside or it.name.endswith("Command") or any(name[:1].isupper() for name in it.given)):
        argv = _as_options(it.given)
        effect = next((row.effect for row in of_command if rows.holds(row, argv)), None)
        return None if effect is None else (it.name, effect)
    for row in _ROWS.get(it.in_snake, ()):
        if it.is_owned(row.owner) and all(map(it.holds, row.conditions)):
            return None if row.effect is None else (row.verb.format(name=it.name, last=it.last), row.effect)
    if it.given and (it.name.startswith(_SETTERS) or (it.is_outside and it.in_snake.startswith(_SETTERS_OF_CLIENTS))):
        found = by_setting(it.name, it.given)
        if found is not None and found[1] is not ActEffect.SENDS:
            return f"{it.name} {found[0]}", found[1]
    return _by_words(it.owner, it.name) if it.is_outside and it.owner else None


_BY_ARGUMENTS = frozenset(("update", "destroy", "sync", "synchronize"))
"""Methods with many other meanings, which only their arguments show to act."""


def names_client(word: str) -> bool:
    """Return whether a variable of this name may be a client of a remote service."""
    return word in _SHORT_OWNERS or not _OWNERS.isdisjoint(words(word))


def may_act(word: str) -> tuple[bool, bool, bool]:
    """Return whether a method of this name may act by itself, as one of a remote service, or by its settings."""
    name = "_".join(words(word.removesuffix("Command")))
    rows_ = [row for row in _ROWS.get(name, ()) if row.effect is not None and name not in _BY_ARGUMENTS]
    sets = word.startswith(_SETTERS)
    alone = any(not row.owner for row in rows_) or bool(_rows_of(name.replace("_", "-")))
    outside = bool(rows_) or sets or name.startswith(_SETTERS_OF_CLIENTS) or begins_act(word)
    return alone, outside, sets
