"""Where a session ran away."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Span:
    """Where a session ran away, as numbers of events in the source."""

    begins: int
    """The first fruitless step: what comes before is sound; what comes from here to the signal is left out."""
    signal: int
    """The first at which the events up to there were reason enough to step in."""
    ends: float = inf
    """The last fruitless step: what comes after it is left out."""
