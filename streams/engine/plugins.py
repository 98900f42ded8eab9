"""Detectors, strategies and interventions of other installed packages."""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from haltline.detectors.framework.plugins import GROUP, Plugins, Source, Stopwatch
from haltline.interventions.levels.plugins import INTERVENTIONS, STRATEGIES

_OTHERS: Final = {STRATEGIES: "strategy", INTERVENTIONS: "intervention"}


def installed(stopwatch: Stopwatch | None = None) -> Plugins:
    """Return what the packages of this environment offer; nothing is imported yet.

    Raises:
        ValueError: two packages offer the same name.

    """
    others = {group: _offered(group, what) for group, what in _OTHERS.items()}
    return Plugins(_offered(GROUP, "detector"), stopwatch, others)


def _offered(group: str, what: str) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for point in _each_once(entry_points(group=group)):
        source = Source(point.load, f"{point.value} of {_package(point)}")
        if point.name in sources:
            raise ValueError(
                f"entry points {group}: expected one {what} of the name {point.name!r},"
                f" got {sources[point.name].place} and {source.place}"
            )
        sources[point.name] = source
    return sources


def _each_once(points: Iterable[EntryPoint]) -> Iterable[EntryPoint]:
    """Yield each package once, also one that is found on two paths, as an editable one may be."""
    return {(point.name, point.value, _package(point)): point for point in points}.values()


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"
