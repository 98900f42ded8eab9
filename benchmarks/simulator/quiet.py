"""What the product counts and collects, left out: it costs time and changes nothing."""

from typing import Any, Final

from haltline.streams.runtime.garbage import Collector
from haltline.streams.runtime.metrics import Metrics


class _Uncounted:
    """A metric, or the children of one."""

    def labels(self, *_: str, **__: str) -> "_Uncounted":
        return self

    def __getitem__(self, _: object) -> "_Uncounted":
        return self

    def _nothing(self, *_: object) -> None: ...

    inc = set = observe = remove = clear = _nothing


_METRIC: Final[Any] = _Uncounted()


class NoMetrics(Metrics):
    """Counts nothing."""

    def __init__(self) -> None:
        """Without a registry."""

    def counter(self, _name: str, /) -> Any:
        """No counter."""
        return _METRIC

    def gauge(self, _name: str, /) -> Any:
        """No gauge."""
        return _METRIC

    def histogram(self, _name: str, /) -> Any:
        """No histogram."""
        return _METRIC

    def children(self, _name: str, /) -> Any:
        """None of them."""
        return _METRIC


class NoCollector(Collector):
    """Leaves the garbage to Python."""

    def tick(self) -> None:
        """Nothing."""

    def whole(self) -> None:
        """Nothing."""

    def anew(self) -> None:
        """Nothing."""
