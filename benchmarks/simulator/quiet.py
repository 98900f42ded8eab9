"""Metrics and garbage collection that do nothing: they would cost time and change no result."""

from typing import Any, Final

from haltline.streams.runtime.garbage import Collector
from haltline.streams.runtime.metrics import Metrics


class _Uncounted:
    """A metric or its children, without effect."""

    def labels(self, *_: str, **__: str) -> "_Uncounted":
        return self

    def __getitem__(self, _: object) -> "_Uncounted":
        return self

    def _nothing(self, *_: object) -> None: ...

    inc = set = observe = remove = clear = _nothing


_METRIC: Final[Any] = _Uncounted()


class NoMetrics(Metrics):
    """Metrics without effect."""

    def __init__(self) -> None:
        """Create no registry."""

    def counter(self, _name: str, /) -> Any:
        """Return a counter without effect."""
        return _METRIC

    def gauge(self, _name: str, /) -> Any:
        """Return a gauge without effect."""
        return _METRIC

    def histogram(self, _name: str, /) -> Any:
        """Return a histogram without effect."""
        return _METRIC

    def children(self, _name: str, /) -> Any:
        """Return an empty set of children."""
        return _METRIC


class NoCollector(Collector):
    """A collector that leaves garbage collection to Python."""

    def tick(self) -> None:
        """Do nothing."""

    def whole(self) -> None:
        """Do nothing."""

    def refreeze(self) -> None:
        """Do nothing."""
