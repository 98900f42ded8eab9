"""Examples in the API's description: beside each model one of it; what is made of models is made of their examples."""

from typing import Annotated, Any, Final

from fastapi import FastAPI
from pydantic import ConfigDict, Field

from haltline.schemas.record import JsonObject

JSON: Final = "application/json"
_NONE: Final = object()
"""Its form is not given."""

Yes = Annotated[bool, Field(examples=[True])]
Total = Annotated[int, Field(examples=[1])]
Skipped = Annotated[int, Field(examples=[0])]
Limited = Annotated[int, Field(examples=[50])]


def like(**example: Any) -> ConfigDict:
    """Settings of a model: an example of it."""
    return ConfigDict(json_schema_extra={"examples": [example]})


def describe(app: FastAPI) -> None:
    """Has the description of an application show an example with each JSON body."""
    bare = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            _show_all(bare())
        return bare()  # kept by the application

    app.openapi = described  # type: ignore[method-assign]


def _show_all(definition: dict[str, Any]) -> None:
    schemas = definition.get("components", {}).get("schemas", {})
    for schema in schemas.values():
        if "examples" in schema:
            schema["examples"] = [_whole(one, schema, schemas) for one in schema["examples"]]
    for operations in definition["paths"].values():
        for operation in operations.values():
            for body in (operation.get("requestBody", {}), *operation["responses"].values()):
                content = body.get("content", {}).get(JSON)
                if content is None or "example" in content:
                    continue
                made = _made(content["schema"], schemas)
                if made is not _NONE:
                    content["example"] = made


def _whole(example: Any, schema: JsonObject, schemas: dict[str, JsonObject]) -> Any:
    """An example with the nulls in it, which FastAPI leaves out of all that it describes."""
    if "$ref" in schema:
        return _whole(example, schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if isinstance(example, list) and "items" in schema:
        return [_whole(one, schema["items"], schemas) for one in example]
    if not isinstance(example, dict) or "properties" not in schema:
        return example
    fields = schema["properties"]
    completed = {name: _whole(one, fields.get(name, {}), schemas) for name, one in example.items()}
    nulls = [name for name in schema.get("required", ()) if {"type": "null"} in fields[name].get("anyOf", ())]
    return dict.fromkeys(nulls) | completed


def _made(schema: JsonObject, schemas: dict[str, JsonObject]) -> Any:
    """An example of what a schema describes, of those in it; `_NONE` where some part of it has none."""
    if "$ref" in schema:
        return _made(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for word in ("examples", "enum"):
        if schema.get(word):
            return schema[word][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return next((one for one in (_made(of, schemas) for of in schema["anyOf"]) if one is not _NONE), _NONE)
    if "items" in schema:
        one = _made(schema["items"], schemas)
        return _NONE if one is _NONE else [one]
    return _of_fields(schema, schemas) if "properties" in schema else _NONE


def _of_fields(schema: JsonObject, schemas: dict[str, JsonObject]) -> Any:
    """Of each field one; a field that may be left out is, where it is not given."""
    made = {name: _made(of, schemas) for name, of in schema["properties"].items()}
    if any(made[name] is _NONE for name in schema.get("required", ())):
        return _NONE
    return {name: one for name, one in made.items() if one is not _NONE}
