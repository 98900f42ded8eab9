"""The description shows each JSON body by an example that is what the route's own models read and write."""

from typing import Any

import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from haltline.console.http.examples import JSON
from tests.console.described import APP, ROUTES

WITH_BODIES = [name for name, one in ROUTES.items() if one.response_model is not None or one.body_field is not None]


def bodies(name: str) -> dict[str, dict[str, Any]]:
    """What is said of a route's JSON bodies, by `request` or the status of the answer."""
    method, _, path = name.partition(" ")
    operation = APP.openapi()["paths"][path][method.lower()]
    answers = {status: one for status, one in operation["responses"].items() if status.startswith("2")}
    every = {"request": operation.get("requestBody", {})} | answers
    return {which: body["content"][JSON] for which, body in every.items() if JSON in body.get("content", {})}


def model_of(route: APIRoute, which: str) -> Any:
    """The route's model of a body."""
    if which != "request":
        return route.response_model
    assert route.body_field is not None
    return route.body_field.field_info.annotation


@pytest.mark.parametrize("name", WITH_BODIES)
def test_each_body_has_an_example_that_its_models_take(name: str) -> None:
    found = bodies(name)
    assert found
    for which, said in found.items():
        assert "example" in said, f"{which}: expected an example, of the model or of each of its fields; got none"
        example = said["example"]
        Draft202012Validator({**said["schema"], "components": APP.openapi()["components"]}).validate(example)
        model = model_of(ROUTES[name], which)
        taken = TypeAdapter(model).validate_python(example)
        if which == "request":
            assert set(example) <= set(model.model_fields), "fields that nobody reads"
        else:
            assert TypeAdapter(model).dump_python(taken, mode="json", exclude_unset=True) == example
