"""Irreversible GraphQL mutations in a call's arguments, by the names and arguments of their fields.

Misses: mutations with uninformative names; conditions in variables.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from haltline.detectors.commands.arguments import MAX_CALLS, MAX_JSON_CHARS, is_name, leaves
from haltline.detectors.commands.destructive_shapes import TEXTS, Deed
from haltline.detectors.commands.effects.tools import by_name
from haltline.detectors.commands.model import ActEffect
from haltline.detectors.commands.rows import expression_of
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

_HOLDS_TEXTS = frozenset(TEXTS)
_MUTATION = re.compile(r"\bmutation\b[^{]{0,2000}\{(?P<fields>.*)", re.DOTALL)
_FIELD = expression_of("a field of a mutation")
_GRAPHQL_TEXT = re.compile(r'(?<!\\)"((?:[^"\\]|\\.)*+)"')

_GRAPHQL_NUMBER = re.compile(r"\b(?:id|\w{1,40}Id|\w{1,40}_id)\s{0,8}:\s{0,8}(\d{1,20})\b")


def graphql(objects: Iterable[Mapping[str, Any]]) -> list[Deed]:
    """Return the irreversible mutations in GraphQL texts."""
    found: list[Deed] = []
    for inner in objects:
        if not _HOLDS_TEXTS.isdisjoint(inner):
            found += _mutations(inner)
    return found[:MAX_CALLS]


def _mutations(args: Mapping[str, Any]) -> list[Deed]:
    found: list[Deed] = []
    for key in TEXTS:
        text = args.get(key)
        if key == "mutation" and isinstance(text, str) and text.isidentifier() and destroying_verb(text):
            text = f"mutation {{ {text} }}"
        if not isinstance(text, str) or "mutation" not in text:
            continue
        mutation = _MUTATION.search(text[:MAX_JSON_CHARS])
        for field in _FIELD.finditer(mutation["fields"]) if mutation else ():
            verb = destroying_verb(field["field"])
            act = None if verb else by_name(field["field"]) or _of_every_row(field["field"], field["args"] or "")
            if not verb and act is None:
                continue
            if len(found) >= MAX_CALLS:
                return found[:MAX_CALLS]
            given = field["args"] or ""
            named = (
                _GRAPHQL_TEXT.findall(given)
                or _GRAPHQL_NUMBER.findall(given)
                or [str(value) for value in leaves(args.get("variables")) if is_name(value)]
            )
            about = "_".join(word for word in words(field["field"]) if word != verb) or "id"
            effect = ActEffect.DESTROYS if act is None else act[1]
            found += [Deed(field["field"], about, name, effect) for name in named[:MAX_CALLS] or [about]]
    return found[:MAX_CALLS]


def _of_every_row(name: str, args: str) -> tuple[str, ActEffect] | None:
    changes = not _ALTERS.isdisjoint(words(name)) and _NO_CONDITION.search(args) is not None
    return (name, ActEffect.OVERWRITES) if changes else None


_ALTERS = frozenset(("update", "set", "patch", "modify", "replace"))
_NO_CONDITION = re.compile(r"\b(?:where|filter|condition|selector)\s*:\s*\{\s*\}")
