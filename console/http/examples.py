"""Examples in the API's description, generated from its schemas by the name or the type of each field."""

from typing import Any, Final

from fastapi import FastAPI

from haltline.schemas.record import JsonObject

JSON: Final = "application/json"

_MOMENT: Final = "2026-01-01T12:00:00.000Z"
_EPOCH_MS: Final = 1_767_268_812_000
_CALL: Final = {"action_name": "delete_asset", "action": "delete_asset", "name": "delete_asset", "word": "approve"}
_WHO: Final = {
    "agent_id": "cleaner",
    "assignee": "bo",
    "by": "ada",
    "by_tree": False,
    "decided_by_email": "ada",
    "session_id": "night-7",
    "run_id": "night-7",
    "target_id": "night-7",
    "scope_id": "night-7",
    "mission_id": "q3-clean-up",
    "id": "night-7",
    "ids": ["apr_5d0c", "apr_77e1"],
    "q": "night-7",
}
_WHY: Final = {
    "reason": "deletes the wrong schema",
    "detail": "session none: expected one with events, got none of this id",
    "goal": "Remove the stale asset fact_sales",
    "problem": "entries[4].timestamp: expected a time, got 'yesterday'",
    "summary": "session_kill by ada: deletes the wrong schema",
    "cause": "destruction",
    "rule": "destructive_repeat",
    "setting": "max_deletes",
    "levels": {"NUDGE": 1, "KILL": 1},
    "level": "KILL",
    "severity": "critical",
    "findings": ["destructive_repeat"],
    "near": {"destructive_repeat": 1.0},
    "per": "session and minute",
    "unknown": False,
}
_TIMES: Final = frozenset({"first", "last", "since", "time", "timestamp"})
"""Also every name that ends with `_at`."""
_VALUES: Final[dict[str, Any]] = {
    **_CALL,
    **_WHO,
    **_WHY,
    "date": "2026-01-01",
    "target": "asset_id=fact_sales",
    "targets": ["asset_id=fact_sales"],
    "arguments": '{"asset_id":"fact_sales"}',
    "command": "haltline doctor",
    "document": "rules: {destructive_volume: {settings: {max_deletes: 5}}}",
    "limit": 50,
    "skip": 0,
}
"""By field name, if the field's type matches the value's."""
_OF_TYPE: Final[dict[str, Any]] = {"string": "text", "integer": 1, "number": 0.5, "boolean": True, "object": {}}
_PYTHON: Final[dict[str, Any]] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


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
    """An example of a schema: its own, else one by the field's name, else one by its type."""
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
    if kind == "string" and (name in _TIMES or name.endswith("_at")):
        return _MOMENT
    if type(_VALUES.get(name)) is _PYTHON.get(kind):
        return _VALUES[name]
    if kind == "array":
        return [_made(schema["items"], schemas, name)]
    if kind == "integer" and name.endswith("_ms"):
        return _EPOCH_MS
    return _OF_TYPE[kind]
