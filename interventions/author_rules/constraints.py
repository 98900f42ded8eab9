"""Constraints of arguments: the keywords of JSON Schema in Agent Sentinel's policy, and a length.

A missing argument is ignored unless it is required. A bound requires a number, a pattern a text or a path, a length a
value that has one: another type ("900", ["rm"]) is a violation, although JSON Schema accepts it. True and False are no
numbers. A number with an integral value (2.0) is an integer, as in JSON Schema. The text of a violation goes to the
model, so it names the argument, not its value.
"""

import os
from collections.abc import Iterator, Mapping, Sized
from decimal import Decimal
from numbers import Real
from typing import Any

from haltline.interventions.author_rules.objection import ARGUMENTS, Objection
from haltline.schemas.author_rules import Arguments, Constraint

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def against(action: str, constraints: Arguments, args: Mapping[str, Any]) -> Objection | None:
    """Return all violations of the arguments."""
    wrong = [f"{name} is required" for name in constraints.required if args.get(name) is None]
    for name, constraint in constraints.properties.items():
        if name in args:
            wrong += [f"{name} {what}" for what in _violations(constraint, args[name])]
    if not wrong:
        return None
    return Objection(ARGUMENTS, f"{action}: {'; '.join(wrong)}"[:4000], argument_violations=tuple(wrong[:32]))


def _violations(constraint: Constraint, value: Any) -> Iterator[str]:
    if constraint.type is not None and not _is(value, constraint.type):
        yield f"must be of type {constraint.type}"
        return
    number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    bound = constraint.minimum is not None or constraint.maximum is not None
    if bound and not number and value is not None:  # None counts as missing, as for `required`
        yield "must be a number"
    # Written so that NaN, which compares false with everything, is a violation.
    if constraint.minimum is not None and number and not value >= constraint.minimum:
        yield f"must be at least {constraint.minimum:g}"
    if constraint.maximum is not None and number and not value <= constraint.maximum:
        yield f"must be at most {constraint.maximum:g}"
    if constraint.enum is not None and not any(_equal(value, allowed) for allowed in constraint.enum):
        yield f"must be one of {', '.join(map(str, constraint.enum))}"[:500]
    if value is None:
        return
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if constraint.pattern is not None and not (isinstance(text, str) and constraint.pattern.search(text)):
        yield f"must match {constraint.pattern.pattern}" if isinstance(text, str) else "must be a text"
    if constraint.max_length is not None and not (isinstance(text, Sized) and len(text) <= constraint.max_length):
        yield f"must not be longer than {constraint.max_length}"


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    if kind == "number" and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES[kind])


def _equal(value: Any, allowed: Any) -> bool:
    """Return whether both are equal; 1 and True are different here."""
    return isinstance(value, bool) is isinstance(allowed, bool) and bool(value == allowed)
