"""From how many on a pattern is medium, high and critical, as one setting."""

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from haltline.detectors.strictness import Stricter


def _ascending(counts: tuple[int, int, int]) -> tuple[int, int, int]:
    if not counts[0] <= counts[1] <= counts[2]:
        raise ValueError("medium <= high <= critical")
    return counts


ASCENDING = AfterValidator(_ascending)
"""Of three counts: each is at least the one before."""
Many = Annotated[int, Field(ge=2, le=10_000), Stricter.LOWER]
"""Any number of messages or steps from two on."""
ManyCounts: TypeAlias = Annotated[tuple[Many, Many, Many], ASCENDING]
