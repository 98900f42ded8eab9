"""A strict JSON parser: unlike Python's, it rejects `NaN`, `Infinity` and numbers beyond the range of floats."""

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from haltline.streams.json_text import MAX_VALUES, has_too_many

_SHOWN = 200


class NotFinite(json.JSONDecodeError):
    """A number that JSON does not have."""


def loads(body: bytes) -> Any:
    """Parse a body.

    Raises:
        NotFinite: a number in it is not valid JSON.
        json.JSONDecodeError: it is not JSON.
        RecursionError: it is nested too deeply.
        HTTPException: it has too many values (413).

    """
    if has_too_many(body):
        raise HTTPException(413, f"the body: expected at most {MAX_VALUES} values, got more")
    return json.loads(body, parse_constant=_refused, parse_float=_finite)  # not orjson: integers beyond 64 bits


def _refused(text: str) -> float:
    raise NotFinite(f"expected a finite number, got {text}", text, 0)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refused(text[:40])


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = loads(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route with this parser; invalid JSON gives status 422."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler with this parser."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strict


async def invalid_request(_: Request, invalid: Exception) -> JSONResponse:
    """FastAPI's report of an invalid request without the input, which may be all of a long body."""
    problems = invalid.errors() if isinstance(invalid, RequestValidationError) else ()
    errors = [
        {"type": one["type"], "loc": list(one["loc"]), "msg": str(one["msg"])[:2000]} | _input(one.get("input"))
        for one in problems[:_SHOWN]
    ]
    return JSONResponse({"detail": errors}, 422)


def _input(value: Any) -> dict[str, Any]:
    is_short = value is None or (isinstance(value, str | int | float) and len(str(value)) <= _SHOWN)
    return {"input": value} if is_short else {}
