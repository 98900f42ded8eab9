"""The settings of a detector as JSON Schema, for editors and authors of policies."""

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import TypeAdapter

from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.settings import annotations_of
from haltline.detectors.framework.strictness import direction_of
from haltline.schemas.record import JsonObject

_UNITS = {"_s": "s", "_ms": "ms", "_usd_per_min": "USD/min", "_tokens": "tokens", "tokens_per_min": "tokens/min"}


def schema_of(detector: type[Pattern[Any]]) -> JsonObject:
    """Return an object schema with types, bounds, defaults and descriptions of the settings.

    `x-unit` gives the unit, `x-stricter` the direction in which a setting is stricter. JSON Schema cannot express that
    some settings must be in order (medium <= high <= critical).
    """
    schema: JsonObject = TypeAdapter(detector).json_schema(mode="validation")
    lineage = (one for one in reversed(detector.__mro__) if issubclass(one, Pattern))
    described = {name: text for one in lineage for name, text in descriptions(one).items()}
    properties = schema.setdefault("properties", {})
    for name, annotation in annotations_of(detector).items():
        setting = properties[name]
        setting.pop("title", None)
        if name in described:  # the contract tests require one for each
            setting["description"] = described[name]
        direction = direction_of(annotation)
        setting["x-stricter"] = direction.value if direction else "neither"
        unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), None)
        if unit is not None:
            setting["x-unit"] = unit
    schema["additionalProperties"] = False
    schema["title"] = f"settings of {detector.id}"
    return schema


@cache
def descriptions(described: type) -> dict[str, str]:
    """By field of a class: the docstring below it in its source."""
    # pydantic can read them too, but only at class creation: a tenth of a second for every process that imports it.
    (tree,) = ast.parse(dedent(inspect.getsource(described))).body
    return {
        statement.target.id: inspect.cleandoc(below.value.value)
        for statement, below in pairwise(tree.body if isinstance(tree, ast.ClassDef) else [])
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
