"""Generated runaways and healthy sessions, with the truth about each."""

from benchmarks.runaways import destruction, excess, healthy, known_results, repetition
from benchmarks.runaways.case import Case, Family

__all__ = ["FAMILIES", "Case", "Family"]

_MODULES = (destruction, repetition, excess, known_results, healthy)
FAMILIES = tuple(one for module in _MODULES for one in vars(module).values() if isinstance(one, Family))
