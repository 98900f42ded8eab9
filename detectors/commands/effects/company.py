"""Effects that only a verb in a tool's name and its arguments show together.

Misses: service-specific argument names.
"""

import re
from collections.abc import Mapping
from typing import Any

from haltline.detectors.commands.effects.tools import words_of_all
from haltline.detectors.commands.model import ActEffect, listed

_MONEY = frozenset(listed("amount amount_usd amount_cents sum price total_amount value betrag montant importe importo"))
_PAYEES = frozenset(listed("""
    to recipient payee iban to_iban destination account to_account address customer card creator merchant vendor
    beneficiary wallet to_address to_wallet to_user receiver recipient_id account_number
"""))  # fmt: skip
BUYS = frozenset(("subscribe", "upgrade", "enroll", "enrol", "order", "register", "renew"))
_MEANS = frozenset(("card", "card_id", "payment_method", "payment_method_id", "billing", "card_number"))
MOVES_MONEY = frozenset(listed("transfer send pay withdraw charge tip deposit debit payout remit"))
_PROTECTS = frozenset(listed("""
    backup backups versioning protection snapshots snapshot replication retention mfa firewall encryption audit
    logging lock
"""))  # fmt: skip
_WHO = frozenset(listed("user account member employee customer key token"))
_SWITCHES = frozenset(("enabled", "enable", "active", "on", "status", "state", "value"))
_CHANNELS = frozenset(listed("""
    channel channel_id channel_name space space_id space_name chat_id room_id webhook_url phone phone_number
"""))  # fmt: skip
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
_RELEASES = frozenset(("deploy", "release", "promote", "ship", "rollout", "publish"))
_IS_NOTHING = re.compile(r"^\w+[=:]0$|^0$")


def by_company(  # noqa: PLR0912 - one case after another
    names: tuple[str, ...], args: Mapping[str, Any]
) -> tuple[str, ActEffect] | None:
    """Return the act and effect that a verb and the arguments show together; `names` are the call's operations."""
    named_by = words_of_all(names)
    if not named_by.isdisjoint(MOVES_MONEY) and not _MONEY.isdisjoint(args) and not _PAYEES.isdisjoint(args):
        return "move_money", ActEffect.SPENDS
    if not named_by.isdisjoint(BUYS) and not _MEANS.isdisjoint(args):
        return "buy", ActEffect.SPENDS
    if "query" in named_by and isinstance(body := args.get("body"), dict):
        args = {**body, **args}  # `update_by_query(index, body)`
    if (
        not named_by.isdisjoint(_ALTERS)
        and not _NEW_VALUES.isdisjoint(args)
        and any(name in args and args[name] in _EVERY_ROW for name in _FILTERS)
    ):
        return "update_every_row", ActEffect.OVERWRITES
    fields = [value for name, value in args.items() if name in _NEW_VALUES] or [
        {name: value for name, value in args.items() if name not in _NAMES_IT and not name.endswith(("_id", "Id"))}
    ]
    if not named_by.isdisjoint(_ALTERS) and any(
        isinstance(one, dict) and one and all(value is None for value in one.values()) for one in fields
    ):
        return "blank_fields", ActEffect.OVERWRITES
    live = any(
        (isinstance(value, str) and value[:16].lower() in _PRODUCTION) or (value is True and name in _PRODUCTION)
        for name, value in args.items()
    )
    if live and not named_by.isdisjoint(_RELEASES):
        return "release_to_production", ActEffect.SENDS
    if not named_by.isdisjoint(("ref", "branch", "push", "tag")) and args.get("force") is True:
        return "force", ActEffect.DESTROYS
    if args.get("disabled") is True and not named_by.isdisjoint(_WHO):
        return "disable", ActEffect.DESTROYS
    if (live or not named_by.isdisjoint(_PROTECTS)) and any(
        value is False or value in ("off", "disabled", "none") for name, value in args.items() if name in _SWITCHES
    ):
        return "switch_off", ActEffect.DESTROYS
    if not named_by.isdisjoint(_SAYS) and "message" in named_by and not _CHANNELS.isdisjoint(args):
        return "send_to_channel", ActEffect.SENDS
    if not named_by.isdisjoint(("scale", "launch", "provision")) and any(
        isinstance(args.get(name), int) and args[name] >= _MANY for name in _COUNTS
    ):
        return "scale_to_many", ActEffect.SPENDS
    if (
        not named_by.isdisjoint(("scale", "resize", "autoscale", "autoscaling", "capacity", "replicas", "fleet"))
        and _SIZES.isdisjoint(args)
        and any(
            (value == 0 and not isinstance(value, bool)) or (isinstance(value, str) and _IS_NOTHING.search(value))
            for value in args.values()
        )
    ):
        return "scale_to_nothing", ActEffect.DESTROYS
    if not named_by.isdisjoint(("lifecycle", "expiration", "retention", "ttl")) and any(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _FEW for value in args.values()
    ):
        return "let_expire", ActEffect.DESTROYS
    return None
