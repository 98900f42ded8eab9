"""Dispatch of events to detectors by lookup tables: most events matter to a few detectors only."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding

Entry: TypeAlias = tuple[
    str, bool, Callable[[Observation], bool] | None, Callable[[], Any], Callable[[Any, Observation], Finding | None]
]
"""A detector as the engine calls it, with its attributes looked up once and not per event.

Its id; whether this kind of event may create a state; `concerns`, or None if the table already decides it; `start`;
`observe`. A plain tuple, which Python unpacks in a third of the time of a named one.
"""


class Dispatch:
    """The detectors of a session by the kind and the traits of an event, in the order of the catalogue."""

    def __init__(self, detectors: Iterable[Detector[Any]]) -> None:
        self.by_kind = {kind: tuple(d for d in detectors if kind in d.reads) for kind in Kind}
        """All detectors that read events of a kind."""
        self.tables: dict[Kind, dict[int, tuple[Entry, ...]]] = {kind: {} for kind in Kind}
        """What `table` has found: few rows, as new combinations of traits are rare."""

    def table(self, kind: Kind, sights: int) -> tuple[Entry, ...]:
        """The detectors that an event of this kind with these traits may matter to."""
        found = tuple(_entry(d, sights) for d in self.by_kind[kind] if d.sees & sights)
        self.tables[kind][sights] = found
        return found


def _entry(detector: Detector[Any], sights: int) -> Entry:
    concerns_all = type(detector).concerns is Detector.concerns
    concerns = None if concerns_all else detector.concerns
    return (detector.id, bool(detector.wakes_at & sights), concerns, detector.start, detector.observe)
