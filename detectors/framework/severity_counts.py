"""Severities of counts: the lowest medium, high and critical count as one setting, and the severity of a count."""

from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field

from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.findings import Severity


def require_ascending(medium: float, high: float, critical: float) -> None:
    """Raises ValueError, worded as a setting's expectation, unless the counts ascend."""
    if not medium <= high <= critical:
        raise ValueError("medium <= high <= critical")


def _ascending(counts: tuple[int, int, int]) -> tuple[int, int, int]:
    require_ascending(*counts)
    return counts


ASCENDING = AfterValidator(_ascending)
"""Validator of three counts: each must be at least the one before."""
Many = Annotated[int, Field(ge=2, le=10_000), Stricter.LOWER]
"""A number of messages or steps, 2 or more."""
ManyCounts: TypeAlias = Annotated[tuple[Many, Many, Many], ASCENDING]

SEVERITIES: Final = (Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL)
"""The severities of the three counts, in order."""


def severity_of(count: float, counts: tuple[float, float, float]) -> Severity | None:
    """The highest severity whose count is reached; None below the first."""
    reached = sum(count >= step for step in counts)
    return SEVERITIES[reached - 1] if reached else None


def thresholds_of(counts: tuple[float, float, float]) -> dict[str, float | int | str]:
    """The counts by the names of their severities, for a finding."""
    return dict(zip(map(str, SEVERITIES), counts, strict=True))
