"""What arguments must be: the keywords of JSON Schema that Agent Sentinel's policy has, and a length.

An argument that is not given is not looked at unless it is required. A bound wants a number, a pattern a text or a
path, a length something that has one: in another form ("900", ["rm"]) it is no way around, where JSON Schema would let
it pass. True and False are no numbers. A number that is a whole one (2.0) is an integer, as in JSON Schema. What a
violation says goes to the model, so it names the argument, not its value.
"""

import os
from collections.abc import Iterator, Mapping, Sized
from decimal import Decimal
from numbers import Real
from typing import Any

from haltline.interventions.agent.rules.objection import ARGUMENTS, Objection
from haltline.interventions.agent.rules.patterns import compiled
from haltline.interventions.agent.rules.settings import Arguments, Constraint

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def against(action: str, wanted: Arguments, args: Mapping[str, Any]) -> Objection | None:
    """Everything that is wrong with the arguments."""
    wrong = [f"{name} is required" for name in wanted.required if args.get(name) is None]
    for name, constraint in wanted.properties.items():
        if name in args:
            wrong += [f"{name} {what}" for what in _violations(constraint, args[name])]
    if not wrong:
        return None
    return Objection(ARGUMENTS, f"{action}: {'; '.join(wrong)}"[:4000], argument_violations=tuple(wrong[:32]))


def _violations(wanted: Constraint, value: Any) -> Iterator[str]:
    if wanted.type is not None and not _is(value, wanted.type):
        yield f"must be of type {wanted.type}"
        return
    number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    bound = wanted.minimum is not None or wanted.maximum is not None
    if bound and not number and value is not None:  # None is not given, as for `required`
        yield "must be a number"
    # Written so that NaN, which is neither below nor above anything, does not pass.
    if wanted.minimum is not None and number and not value >= wanted.minimum:
        yield f"must be at least {wanted.minimum:g}"
    if wanted.maximum is not None and number and not value <= wanted.maximum:
        yield f"must be at most {wanted.maximum:g}"
    if wanted.enum is not None and not any(_equal(value, allowed) for allowed in wanted.enum):
        yield f"must be one of {', '.join(map(str, wanted.enum))}"[:500]
    if value is None:
        return
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if wanted.pattern is not None and not (isinstance(text, str) and compiled(wanted.pattern).search(text)):
        yield f"must match {wanted.pattern}" if isinstance(text, str) else "must be a text"
    if wanted.max_length is not None and not (isinstance(text, Sized) and len(text) <= wanted.max_length):
        yield f"must not be longer than {wanted.max_length}"


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    if kind == "number" and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES[kind])


def _equal(value: Any, allowed: Any) -> bool:
    """1 and True are two things here."""
    return isinstance(value, bool) is isinstance(allowed, bool) and bool(value == allowed)
