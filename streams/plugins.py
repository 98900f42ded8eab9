"""Detectors of other packages that are installed beside haltline."""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from haltline.detectors.plugins import GROUP, Plugins, Source, Stopwatch


def installed(stopwatch: Stopwatch | None = None) -> Plugins:
    """What the packages of this environment offer; nothing of it is imported yet.

    Raises:
        ValueError: two packages offer a detector of one name.

    """
    sources: dict[str, Source] = {}
    for point in _each_once(entry_points(group=GROUP)):
        source = Source(point.load, f"{point.value} of {_package(point)}")
        if point.name in sources:
            raise ValueError(
                f"entry points {GROUP}: wanted one detector of the name {point.name!r},"
                f" came {sources[point.name].place} and {source.place}"
            )
        sources[point.name] = source
    return Plugins(sources, stopwatch)


def _each_once(points: Iterable[EntryPoint]) -> Iterable[EntryPoint]:
    """A package that is found on two ways, as an editable one may be, is still one."""
    return {(point.name, point.value, _package(point)): point for point in points}.values()


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"
