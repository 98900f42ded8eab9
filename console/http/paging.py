"""Parameters of the routes that list: which page, and which moments."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query

Skip = Annotated[int, Query(ge=0, le=2**31)]
Limit = Annotated[int, Query(ge=1, le=1000)]
From = Annotated[datetime | None, Query(description="From this moment on, ISO 8601.")]
Until = Annotated[datetime | None, Query(description="Up to this moment, ISO 8601.")]


def epoch_ms(moment: datetime | None) -> int | None:
    """Epoch milliseconds; a moment without an offset is in UTC."""
    if moment is None:
        return None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
