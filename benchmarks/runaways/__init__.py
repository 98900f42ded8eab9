"""Generated runaways and healthy sessions, with the truth about each."""

from benchmarks.runaways import destruction, errors, excess, healthy, known_results, repetition
from benchmarks.runaways.case import Case, Family

__all__ = ["FAMILIES", "Case", "Family"]

FAMILIES: tuple[Family, ...] = (
    *destruction.FAMILIES,
    *errors.FAMILIES,
    *repetition.FAMILIES,
    *excess.FAMILIES,
    *known_results.FAMILIES,
    *healthy.FAMILIES,
)
