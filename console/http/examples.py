"""Examples in the API's description, generated from its schemas."""

from typing import Any, Final

from fastapi import FastAPI

from haltline.schemas.record import JsonObject

JSON: Final = "application/json"

_MOMENT: Final = "2026-01-01T12:00:00.000Z"
_EPOCH_MS: Final = 1_767_268_812_000
_TIMES: Final = frozenset({"first", "last", "since", "time", "timestamp"})
"""Also every name that ends with `_at`, `_ms` or `_until`."""
_OF_TYPE: Final[dict[str, Any]] = {"integer": 1, "number": 0.5, "boolean": True, "object": {}}


def describe(app: FastAPI) -> None:
    """Add an example for each JSON body to an application's description."""
    bare = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            _show_all(bare())
        return bare()  # cached by the application

    app.openapi = described  # type: ignore[method-assign]


def _show_all(definition: dict[str, Any]) -> None:
    schemas = definition.get("components", {}).get("schemas", {})
    for operations in definition["paths"].values():
        for operation in operations.values():
            for body in (operation.get("requestBody", {}), *operation["responses"].values()):
                content = body.get("content", {}).get(JSON)
                if content is not None and "example" not in content:
                    content["example"] = _made(content["schema"], schemas)


def _made(schema: JsonObject, schemas: dict[str, JsonObject], name: str = "") -> Any:
    """An example of a schema: its own, else one by its type; a text is the field's name."""
    if "$ref" in schema:
        return _made(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    for word in ("examples", "enum"):
        if schema.get(word):
            return schema[word][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return _made(next(of for of in schema["anyOf"] if of.get("type") != "null"), schemas, name)
    if "properties" in schema:
        return {field: _made(of, schemas, field) for field, of in schema["properties"].items()}
    kind = schema.get("type", "string")
    is_time = name in _TIMES or name.endswith(("_at", "_ms", "_until"))
    if schema.get("format") == "duration":
        return "PT1H"
    if kind == "string":
        return _MOMENT if is_time else name or "text"
    if kind == "array":
        return [_made(schema["items"], schemas, name)]
    if kind == "integer" and is_time:
        return _EPOCH_MS
    return _OF_TYPE[kind]
