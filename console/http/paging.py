"""Parameters of the routes that list: page and time range; and the common fields of their pages."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, GetPydanticSchema
from pydantic_core.core_schema import no_info_after_validator_function


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
