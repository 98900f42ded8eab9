"""Effects that only a verb in a tool's name and its arguments show together: the rows of `combinations.txt`.

Misses: service-specific argument names.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias

from haltline.detectors.commands.effects.tools import words_of_all
from haltline.detectors.commands.model import ActEffect, listed
from haltline.detectors.commands.rows import cells_of, words_of
from haltline.schemas import expressions as re

Args: TypeAlias = Mapping[str, Any]
BUYS = words_of("verbs that buy")
MOVES_MONEY = words_of("verbs that move money")
_MANY = 50
_SIZES = frozenset(("width", "height", "factor", "x", "y", "zoom", "font_size"))
"""Sizes of images and windows."""
_COUNTS = frozenset(listed("replicas replica_count count desired_capacity instances node_count nodes"))
_FEW = 7
_PRODUCTION = frozenset(("prod", "production", "live"))
_FILTERS = ("filter", "where", "query", "condition", "conditions", "criteria", "selector", "match")
_NEW_VALUES = frozenset(listed("values value set update updates data fields changes new_values patch script"))
_EVERY_ROW: tuple[object, ...] = (
    "", None, {}, [], "*", "{}", "1=1", "true", "all", {"match_all": {}},
    *({"_id": {f"${how}": value}} for how, value in (("exists", True), ("ne", None), ("gt", 0), ("gte", 0))),
)  # fmt: skip
"""Conditions that hold for every row."""
_NAMES_IT = frozenset(listed("id name table key path database entity object type collection base sheet record"))
"""Arguments that identify the target."""
_IS_NOTHING = re.compile(r"^\w+[=:]0$|^0$")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _takes_every_row(args: Args) -> bool:
    return not _NEW_VALUES.isdisjoint(args) and any(name in args and args[name] in _EVERY_ROW for name in _FILTERS)


def _blanks_fields(args: Args) -> bool:
    fields = [value for name, value in args.items() if name in _NEW_VALUES] or [
        {name: value for name, value in args.items() if name not in _NAMES_IT and not name.endswith(("_id", "Id"))}
    ]
    return any(isinstance(one, dict) and one and all(value is None for value in one.values()) for one in fields)


def _is_live(args: Args) -> bool:
    return any(
        (isinstance(value, str) and value[:16].lower() in _PRODUCTION) or (value is True and name in _PRODUCTION)
        for name, value in args.items()
    )


def _asks_for_many(args: Args) -> bool:
    return any(isinstance(args[name], int) and args[name] >= _MANY for name in _COUNTS & args.keys())


def _asks_for_nothing(args: Args) -> bool:
    return _SIZES.isdisjoint(args) and any(
        _number(value) == 0 or (isinstance(value, str) and _IS_NOTHING.search(value)) for value in args.values()
    )


def _expires_soon(args: Args) -> bool:
    return any(0 <= number <= _FEW for value in args.values() if (number := _number(value)) is not None)


_CONDITIONS: Mapping[str, Callable[[Args], bool]] = {
    "every_row": _takes_every_row,
    "blank": _blanks_fields,
    "live": _is_live,
    "many": _asks_for_many,
    "nothing": _asks_for_nothing,
    "soon": _expires_soon,
}


class _Row(NamedTuple):
    groups: tuple[frozenset[str], ...]
    conditions: tuple[str, ...]
    act: str
    effect: ActEffect


def _holds(condition: str, args: Args) -> bool:
    if condition in _CONDITIONS:
        return _CONDITIONS[condition](args)
    names, equals, value = condition.partition("=")
    given = [args[name] for name in names.split("/") if name in args]
    return bool(given) if not equals else any(one is True if value == "true" else _is_off(one) for one in given)


def _is_off(value: object) -> bool:
    return value is False or (isinstance(value, str) and value in ("off", "disabled", "none"))


def _row(act: str, groups: str, conditions: str) -> _Row:
    effect, verb = act.split()
    each = map(str.strip, filter(None, groups.split(",")))
    words = tuple(words_of(group[1:]) if group[0] == "@" else frozenset(listed(group)) for group in each)
    return _Row(words, listed(conditions), verb, ActEffect(effect))


_ROWS = tuple(starmap(_row, cells_of("combinations")))


def by_verb_and_arguments(names: tuple[str, ...], args: Args) -> tuple[str, ActEffect] | None:
    """Return the act and effect that a verb and the arguments show together; `names` are the call's operations."""
    if "query" in words_of_all(names) and isinstance(body := args.get("body"), dict):
        args = {**body, **args}  # `update_by_query(index, body)`
    rows = (row for row in _rows_of(names) if all(_holds(condition, args) for condition in row.conditions))
    return next(((row.act, row.effect) for row in rows), None)


@lru_cache(maxsize=4096)
def _rows_of(names: tuple[str, ...]) -> tuple[_Row, ...]:
    """Return the rows for these operations, of which most have none."""
    named_by = words_of_all(names)
    return tuple(row for row in _ROWS if not any(group.isdisjoint(named_by) for group in row.groups))
