"""Answers that are asked for often, as JSON at once."""

from typing import Any

from fastapi import Response
from pydantic_core import to_json


def answer(content: Any, status: int = 200) -> Response:
    """What we made ourselves, models or plain values: FastAPI would check it once more, on another thread."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")
