"""The place where a session ran away."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Span:
    """The span in which a session ran away, as numbers of events in the source."""

    begins: int
    """The first fruitless step: earlier ones are sound, and those from here to the signal are left out."""
    signal: int
    """The first event at which the events so far justified an intervention."""
    ends: float = inf
    """The last fruitless step: later ones are left out."""
