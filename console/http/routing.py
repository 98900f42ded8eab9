"""What the routes share: pages of lists, responses, and a strict parser of JSON.

Unlike Python's, the parser rejects `NaN`, `Infinity` and numbers beyond the range of floats.
"""

import json
import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, GetPydanticSchema
from pydantic_core import to_json
from pydantic_core.core_schema import no_info_after_validator_function

from haltline.streams.json_text import MAX_VALUES, has_too_many

Described = dict[int | str, dict[str, Any]]
NO_SUCH_ID: Final[Described] = {404: {"description": "There is none of this id."}}
UNUSABLE: Final[Described] = {400: {"description": "It cannot be used: where, what was expected, what got."}}


def answer(content: Any, status: int = 200) -> Response:
    """A response from our own models or plain values, which FastAPI would validate again on another thread."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")


def _epoch_ms(moment: datetime | None) -> int | None:
    """Convert to epoch milliseconds; a time without an offset is in UTC."""
    if moment is None:
        return None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


_OF_MOMENT = GetPydanticSchema(lambda _, of: no_info_after_validator_function(_epoch_ms, of(datetime | None)))

Skip = Annotated[int, Query(ge=0, le=2**31)]
Limit = Annotated[int, Query(ge=1, le=1000)]
From = Annotated[int | None, _OF_MOMENT, Query(alias="start_date", description="From this moment on, ISO 8601.")]
"""In epoch milliseconds."""
Until = Annotated[int | None, _OF_MOMENT, Query(alias="end_date", description="Up to this moment, ISO 8601.")]
"""In epoch milliseconds, inclusive."""


class Page(BaseModel):
    """The place of a page in a list."""

    total: int
    skip: int
    limit: int


_SHOWN = 200


def _loads(body: bytes) -> Any:
    """Parse a body.

    Raises:
        json.JSONDecodeError: it is not JSON, or has a number that JSON does not have.
        RecursionError: it is nested too deeply.
        HTTPException: it has too many values (413).

    """
    if has_too_many(body):
        raise HTTPException(413, f"the body: expected at most {MAX_VALUES} values, got more")
    return json.loads(body, parse_constant=_refused, parse_float=_finite)  # not orjson: integers beyond 64 bits


def _refused(text: str) -> float:
    raise json.JSONDecodeError(f"expected a finite number, got {text}", text, 0)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refused(text[:40])


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = _loads(await self.body())
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
