"""The API's routes. Its description takes half a second to make, so it is made when a test needs it, and kept."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from fastapi.routing import APIRoute

from haltline.console import routes
from haltline.console.access.keys import Keys
from haltline.console.app import create_app
from haltline.console.settings import ConsoleSettings

APP: Final = create_app(ConsoleSettings(bootstrap="", keys=Keys({}), database=""))


def _routes() -> dict[str, APIRoute]:
    modules = [import_module(one.name) for one in iter_modules(routes.__path__, f"{routes.__name__}.")]
    routers = [APP, *(module.router for module in modules if hasattr(module, "router"))]
    found = [one for router in routers for one in router.routes]
    described = [one for one in found if isinstance(one, APIRoute) and one.include_in_schema]
    return {f"{method} {one.path_format}": one for one in described for method in one.methods or ()}


ROUTES: Final = _routes()
