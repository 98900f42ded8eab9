"""Fast JSON responses for frequent requests."""

from typing import Any

from fastapi import Response
from pydantic_core import to_json


def answer(content: Any, status: int = 200) -> Response:
    """A response from our own models or plain values, which FastAPI would validate again on another thread."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")
