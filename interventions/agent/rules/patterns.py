"""Regular expressions in settings: validated when they are read, compiled once."""

import re
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled expression."""
    return re.compile(pattern)


def _valid(pattern: str) -> str:
    try:
        compiled(pattern)
    except re.error as error:
        raise ValueError(f"expected a regular expression, got {pattern!r}: {error}") from error
    return pattern


Pattern = Annotated[str, Field(max_length=4096), AfterValidator(_valid)]
"""The text of a regular expression."""
