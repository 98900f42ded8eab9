"""Fast JSON responses for frequent requests, and descriptions of error responses."""

from typing import Any, Final

from fastapi import Response
from pydantic_core import to_json

Described = dict[int | str, dict[str, Any]]
NO_SUCH_ID: Final[Described] = {404: {"description": "There is none of this id."}}
UNUSABLE: Final[Described] = {400: {"description": "It cannot be used: where, what was expected, what got."}}


def answer(content: Any, status: int = 200) -> Response:
    """A response from our own models or plain values, which FastAPI would validate again on another thread."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")
