"""Effects that only a verb in a tool's name and its arguments show together.

Misses: service-specific argument names.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from haltline.detectors.commands.effects.tools import words_of_all
from haltline.detectors.commands.model import ActEffect, listed
from haltline.detectors.commands.rows import words_of
from haltline.schemas import expressions as re

Args: TypeAlias = Mapping[str, Any]
_MONEY = frozenset(listed("amount amount_usd amount_cents sum price total_amount value betrag montant importe importo"))
_PAYEES = words_of("arguments that name a payee")
BUYS = frozenset(("subscribe", "upgrade", "enroll", "enrol", "order", "register", "renew"))
_MEANS = frozenset(("card", "card_id", "payment_method", "payment_method_id", "billing", "card_number"))
MOVES_MONEY = frozenset(listed("transfer send pay withdraw charge tip deposit debit payout remit"))
_PROTECTS = words_of("protections")
_WHO = frozenset(listed("user account member employee customer key token"))
_SWITCHES = frozenset(("enabled", "enable", "active", "on", "status", "state", "value"))
_CHANNELS = words_of("arguments that name a channel")
"""Arguments that name a place with other readers."""
_SAYS = frozenset(("send", "post", "add", "create", "reply"))
_MANY = 50
_SIZES = frozenset(("width", "height", "factor", "x", "y", "zoom", "font_size"))
"""Sizes of images and windows."""
_COUNTS = frozenset(listed("replicas replica_count count desired_capacity instances node_count nodes"))
_FEW = 7
_PRODUCTION = frozenset(("prod", "production", "live"))
_ALTERS = frozenset(("update", "set", "modify", "patch", "edit", "bulk", "replace", "upsert"))
_FILTERS = ("filter", "where", "query", "condition", "conditions", "criteria", "selector", "match")
_NEW_VALUES = frozenset(listed("values value set update updates data fields changes new_values patch script"))
_EVERY_ROW: tuple[object, ...] = (
    "", None, {}, [], "*", "{}", "1=1", "true", "all", {"match_all": {}},
    *({"_id": {f"${how}": value}} for how, value in (("exists", True), ("ne", None), ("gt", 0), ("gte", 0))),
)  # fmt: skip
"""Conditions that hold for every row."""
_NAMES_IT = frozenset(listed("id name table key path database entity object type collection base sheet record"))
"""Arguments that identify the target."""
_REFERENCES = frozenset(("ref", "branch", "push", "tag"))
_MESSAGE = frozenset(("message",))
_STARTS_MANY = frozenset(("scale", "launch", "provision"))
_SCALES = frozenset(("scale", "resize", "autoscale", "autoscaling", "capacity", "replicas", "fleet"))
_KEEPS = frozenset(("lifecycle", "expiration", "retention", "ttl"))
_RELEASES = frozenset(("deploy", "release", "promote", "ship", "rollout", "publish"))
_IS_NOTHING = re.compile(r"^\w+[=:]0$|^0$")


def _has(*groups: frozenset[str]) -> Callable[[Args], bool]:
    """Return whether the arguments have one of each group of names."""
    return lambda args: not any(group.isdisjoint(args) for group in groups)


def _is_true(name: str) -> Callable[[Args], bool]:
    return lambda args: args.get(name) is True


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


def _switches_off(args: Args) -> bool:
    return any(args[name] is False or args[name] in ("off", "disabled", "none") for name in _SWITCHES & args.keys())


def _asks_for_many(args: Args) -> bool:
    return any(isinstance(args[name], int) and args[name] >= _MANY for name in _COUNTS & args.keys())


def _asks_for_nothing(args: Args) -> bool:
    return _SIZES.isdisjoint(args) and any(
        _number(value) == 0 or (isinstance(value, str) and _IS_NOTHING.search(value)) for value in args.values()
    )


def _expires_soon(args: Args) -> bool:
    return any(0 <= number <= _FEW for value in args.values() if (number := _number(value)) is not None)


_Rule: TypeAlias = tuple[tuple[frozenset[str], ...], Callable[[Args], bool], str, ActEffect]
_RULES: tuple[_Rule, ...] = (
    ((MOVES_MONEY,), _has(_MONEY, _PAYEES), "move_money", ActEffect.SPENDS),
    ((BUYS,), _has(_MEANS), "buy", ActEffect.SPENDS),
    ((_ALTERS,), _takes_every_row, "update_every_row", ActEffect.OVERWRITES),
    ((_ALTERS,), _blanks_fields, "blank_fields", ActEffect.OVERWRITES),
    ((_RELEASES,), _is_live, "release_to_production", ActEffect.SENDS),
    ((_REFERENCES,), _is_true("force"), "force", ActEffect.DESTROYS),
    ((_WHO,), _is_true("disabled"), "disable", ActEffect.DESTROYS),
    ((_PROTECTS,), _switches_off, "switch_off", ActEffect.DESTROYS),
    ((), lambda args: _is_live(args) and _switches_off(args), "switch_off", ActEffect.DESTROYS),
    ((_SAYS, _MESSAGE), _has(_CHANNELS), "send_to_channel", ActEffect.SENDS),
    ((_STARTS_MANY,), _asks_for_many, "scale_to_many", ActEffect.SPENDS),
    ((_SCALES,), _asks_for_nothing, "scale_to_nothing", ActEffect.DESTROYS),
    ((_KEEPS,), _expires_soon, "let_expire", ActEffect.DESTROYS),
)
"""Groups of words, one of each required in the operation's names; what the arguments must show; the act and its effect.
The first rule that holds applies."""


def by_verb_and_arguments(names: tuple[str, ...], args: Args) -> tuple[str, ActEffect] | None:
    """Return the act and effect that a verb and the arguments show together; `names` are the call's operations."""
    if "query" in words_of_all(names) and isinstance(body := args.get("body"), dict):
        args = {**body, **args}  # `update_by_query(index, body)`
    return next(((act, effect) for _, holds, act, effect in _rules_of(names) if holds(args)), None)


@lru_cache(maxsize=4096)
def _rules_of(names: tuple[str, ...]) -> tuple[_Rule, ...]:
    """Return the rules for these operations, of which most have none."""
    named_by = words_of_all(names)
    return tuple(rule for rule in _RULES if not any(group.isdisjoint(named_by) for group in rule[0]))
