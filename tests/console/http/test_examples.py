"""The description shows each JSON body by an example that is what the route's own models read and write."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from haltline.console import routes as routes_package
from haltline.console.access.keys import Keys
from haltline.console.app import create_app
from haltline.console.http.examples import JSON
from haltline.console.settings import ConsoleSettings

APP = create_app(ConsoleSettings(bootstrap="", keys=Keys({}), database=""))
DESCRIBED = APP.openapi()


def routes(app: FastAPI) -> dict[str, APIRoute]:
    modules = [import_module(one.name) for one in iter_modules(routes_package.__path__, f"{routes_package.__name__}.")]
    routers = [app, *(module.router for module in modules if hasattr(module, "router"))]
    found = [one for router in routers for one in router.routes if isinstance(one, APIRoute) and one.include_in_schema]
    return {f"{method} {route.path_format}": route for route in found for method in route.methods or ()}


ROUTES = routes(APP)


def bodies(app: FastAPI) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Of every JSON body: its operation, `request` or the status of the answer, and what is said of it."""
    for path, operations in app.openapi()["paths"].items():
        for method, operation in operations.items():
            bodies_of = {"request": operation.get("requestBody", {})} | {
                status: answer for status, answer in operation["responses"].items() if status.startswith("2")
            }
            for which, body in bodies_of.items():
                if JSON in body.get("content", {}):
                    yield f"{method.upper()} {path}", which, body["content"][JSON]


def model_of(route: APIRoute, which: str) -> Any:
    """The route's model of a body."""
    if which != "request":
        return route.response_model
    assert route.body_field is not None
    return route.body_field.field_info.annotation


BODIES = {f"{operation}, {which}": (operation, which, said) for operation, which, said in bodies(APP)}


def test_every_route_with_a_body_is_looked_at() -> None:
    with_answers = {name for name, route in ROUTES.items() if route.response_model is not None}
    assert with_answers <= {operation for operation, _, _ in BODIES.values()}
    assert len(BODIES) > 50


@pytest.mark.parametrize("name", BODIES)
def test_a_body_has_an_example_that_its_models_take(name: str) -> None:
    operation, which, result = BODIES[name]
    assert "example" in result, f"{name}: expected an example, of the model or of each of its fields; got none"
    example = result["example"]
    Draft202012Validator({**result["schema"], "components": DESCRIBED["components"]}).validate(example)
    model = model_of(ROUTES[operation], which)
    taken = TypeAdapter(model).validate_python(example)
    if which == "request":
        assert set(example) <= set(model.model_fields), "fields that nobody reads"
    else:
        assert TypeAdapter(model).dump_python(taken, mode="json", exclude_unset=True) == example
