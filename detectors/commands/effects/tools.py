"""Irreversible effects of tools, by the words of their names and by arguments with settings: extensible tables.

A line of `NAMES` is `effect | verbs | things`. A tool matches if its name starts (or ends) with one of the verbs and
has one of the things among its other words; `*` requires none, `-` before a thing excludes it.

A line of `SETTINGS` is `effect | argument | value`, both full-match patterns, for tools that change something.

Misses: uninformative names; service-specific argument names.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice, starmap
from typing import Any, NamedTuple

from haltline.detectors.commands.effects.languages import in_english
from haltline.detectors.commands.model import ActEffect
from haltline.detectors.commands.rows import cells_of, words_of
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

_AT_THE_END = words_of("verbs at the end of a name")
"""Verbs that may be the last word of a name: `order_submit`."""
_READS = words_of("verbs that only read")
"""First words in names of tools that only read, or undo."""
_LOOKS_ALONE = frozenset(("status", "info", "history", "logs", "details", "health", "help", "ls", "metrics", "state"))
"""Operations that only read if the name has no other word."""
_MODIFIERS = words_of("words before a verb")
_AGREES = frozenset(("accept", "approve", "sign", "send", "publish"))
"""Verbs that finalize a draft."""
_OPENED = frozenset(("port", "ports", "firewall", "door", "doors", "gate", "valve", "world", "public"))
_UNFINISHED = frozenset(("draft", "drafts", "template", "templates", "cart", "basket", "wishlist", "quote"))
_OPERATION_ARGS = ("action", "operation", "op", "method", "command", "verb", "function", "operation_name", "intent",
                   "operation_id", "aktion", "accion", "acao", "azione", "actie", "befehl", "vorgang", "orden",
                   "comando", "ordre", "commande")  # fmt: skip
_CHANGES = words_of("verbs that change settings")
"""Verbs of tools whose arguments are settings."""
_SAYS_OPERATION = frozenset((*_OPERATION_ARGS, "service"))
_MANY_RECIPIENTS = 10
_MENTIONS = re.compile(r"(?:^|[\s<])[@!](?:channel|everyone|here|all)\b")
_CONTENTS = frozenset(("rows", "records", "values", "items", "data", "entries", "documents", "members", "users"))
_MAX_DEPTH = 3
_MAX_PAIRS = 64


class Name(NamedTuple):
    """One line of `NAMES`."""

    effect: ActEffect
    verbs: frozenset[str]
    things: frozenset[str]
    never: frozenset[str]


def _names() -> tuple[Name, ...]:
    rows = []
    for effect, verbs, things in cells_of("tools"):
        listed = things.split()
        rows.append(
            Name(
                ActEffect(effect),
                frozenset(verbs.split()),
                frozenset(word for word in listed if word[0] != "-" and word != "*"),
                frozenset(word[1:] for word in listed if word[0] == "-"),
            )
        )
    return tuple(rows)


NAMES = _names()

_MAX_SETTING_CHARS = 120


def _setting(effect: str, named: str, valued: str) -> tuple[ActEffect, re.Pattern[str], re.Pattern[str]]:
    return (
        ActEffect(effect),
        re.compile(rf"\A(?=[\w.]{{0,{_MAX_SETTING_CHARS}}}\Z)(?:{named})", re.IGNORECASE),
        re.compile(rf"\A(?:{valued})", re.IGNORECASE),
    )


SETTINGS = tuple(starmap(_setting, cells_of("arguments")))
_BY_VERB = {verb: tuple(row for row in NAMES if verb in row.verbs) for row_ in NAMES for verb in row_.verbs}

_SETTLED = frozenset((*_BY_VERB, *_CHANGES, *_READS)) - {"bulk", "mass", "batch"}
"""Words after which no other verb is the leading one."""


@lru_cache(maxsize=4096)
def by_name(name: str, *, alone: bool = True) -> tuple[str, ActEffect] | None:
    """Return the name and effect of a tool name such as `create_refund`; None if it shows none.

    `alone`: allow rows without a thing.
    """
    english = in_english(name)
    parts = english or words(name)
    while not english and len(parts) > 1 and parts[0] in _MODIFIERS and parts[0] != "force":
        parts = parts[1:]
    if parts[:2] in (("turn", "off"), ("switch", "off")):
        parts = ("disable", *parts[2:])
    if not parts or (_AGREES.isdisjoint(parts[:-1]) and not _UNFINISHED.isdisjoint(parts)):
        return None
    if not _READS.isdisjoint(parts) if english else only_looks("_".join(parts)):
        return None
    for at in range(len(parts)) if english else _leads(parts):
        lead, others = parts[at], parts[:at] + parts[at + 1 :]
        at_end = 0 < at == len(parts) - 1 and lead not in _AT_THE_END
        if (english or at) and destroying_verb("_".join((lead, *others))) == lead:
            return "_".join(words(name)), ActEffect.DESTROYS
        for row in _BY_VERB.get(lead, ()):
            holds = not row.things.isdisjoint(others) if row.things else alone and not at_end
            if holds and row.never.isdisjoint(others):
                return "_".join(words(name) if english else parts), row.effect
    return None


def _leads(parts: tuple[str, ...]) -> Iterator[int]:
    """Yield the possible indexes of the verb: first, last, or after the name of a service: `stripe_create_refund`."""
    yield 0
    if parts[-1] in _AT_THE_END or (parts[-1] in _BY_VERB and _SETTLED.isdisjoint(parts[:-1])):
        yield len(parts) - 1
    is_settled = parts[0] in _SETTLED
    for at, word in enumerate(parts[1:-1], 1):
        if word in _READS or (at > 1 and is_settled):
            return
        if word in _BY_VERB:
            yield at
        is_settled = is_settled or word in _SETTLED


def begins_act(name: str) -> bool:
    """Return whether a name begins like that of an act."""
    return words(name)[:1] != () and (words(name)[0] in _BY_VERB or destroying_verb(name) != "")


@lru_cache(maxsize=4096)
def only_looks(name: str) -> bool:
    """Return whether a tool with this name only reads, or undoes."""
    parts = words(name)
    return bool(parts) and parts[0] in _READS and not (parts[0] == "open" and not _OPENED.isdisjoint(parts))


@lru_cache(maxsize=4096)
def sets(name: str) -> bool:
    """Return whether the arguments of a tool with this name are settings."""
    return not _CHANGES.isdisjoint(words(name)) and _UNFINISHED.isdisjoint(words(name))


def operations(action: str, args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a call's operation: the tool's name, and its operation with and without the tool's name."""
    if _SAYS_OPERATION.isdisjoint(args):
        return (action,)
    names = [action]
    if isinstance(args.get("domain"), str) and isinstance(args.get("service"), str):  # a call of Home Assistant
        names.append(f"{args['service']}_{args['domain']}"[:64])
    for name in _OPERATION_ARGS:
        value = args.get(name)
        if isinstance(value, str) and 1 < len(value) <= 64:
            names += (f"{value}_{action}", value)
    return tuple(names)


@lru_cache(maxsize=4096)
def words_of_all(names: tuple[str, ...]) -> frozenset[str]:
    """Return the words of several names, in English."""
    return frozenset(word for name in names for word in in_english(name) or words(name))


@lru_cache(maxsize=4096)
def by_names(names: tuple[str, ...]) -> tuple[bool, tuple[str, ActEffect] | None]:
    """Return whether one of several names determines the effect, and the result of `by_name`; None if it only reads."""
    for name in names:
        looks = name in _LOOKS_ALONE or only_looks(name)
        found = None if looks else by_name(name)
        if found is not None or looks:
            return True, found
    return False, None


def by_setting(action: str, args: Mapping[str, Any]) -> tuple[str, ActEffect] | None:
    """Return the setting and effect of the first irreversible setting in the arguments."""
    for key, value in pairs(args):
        key_ = key if key.islower() and key.isidentifier() else "_".join(words(key))
        if isinstance(value, list) and not value and key_ in _CONTENTS and words(action)[:1] != ("create",):
            return f"empty_{key_}", ActEffect.OVERWRITES
        one = value[0] if isinstance(value, list) and len(value) == 1 else value
        if one is None or isinstance(one, dict | list):
            continue
        text = str(one).strip()
        if len(text) > 12 and "replicas" in text and _TO_NOTHING.search(text) is not None:
            return "scale_to_nothing", ActEffect.DESTROYS
        if key_ in _PROSE and _MENTIONS.search(text) is not None:
            return "mention_all", ActEffect.SENDS
        if len(text) > _MAX_SETTING_CHARS:
            continue
        for effect, valued in settings_of(key_) if len(key_) <= _MAX_SETTING_CHARS else ():
            if valued.fullmatch(text) is not None:
                return f"{key_}_{text.lower()}"[:60], effect
    return None


@lru_cache(maxsize=4096)
def settings_of(key: str) -> list[tuple[ActEffect, re.Pattern[str]]]:
    """Return the lines of `SETTINGS` for an argument."""
    return [(effect, valued) for effect, named, valued in SETTINGS if named.fullmatch(key) is not None]


"""The cache is effective, since few argument names are in use."""

_TO_NOTHING = re.compile(r"\breplicas[\"']?\s*:\s*0\b")
_PROSE = frozenset(("text", "content", "message", "body"))


def to_many(args: Mapping[str, Any]) -> bool:
    """Return whether a message has many recipients."""
    return any(
        isinstance(args.get(name), list) and len(args[name]) >= _MANY_RECIPIENTS
        for name in ("to", "recipients", "bcc", "cc", "emails", "users", "numbers")
    )


def pairs(args: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the arguments and nested ones, down to a maximum depth; `{"name": "ttl", "value": 1}` counts as one."""
    for key, value in islice(args.items(), _MAX_PAIRS):
        yield str(key), value
        if depth < _MAX_DEPTH:
            for inner in value[:_MAX_PAIRS] if isinstance(value, list) else (value,):
                if isinstance(inner, dict):
                    yield from pairs(inner, depth + 1)
    if depth and "value" in args and isinstance(name := args.get("name", args.get("key")), str):
        yield name, args["value"]
