"""The time that each detector takes inside of the engine's own loop: one pass over the events times all of them.

Each `concerns` and `observe` is wrapped in two readings of the clock, whose own cost is measured and subtracted. Values
that detectors share are computed on first use, in the time of the first detector that uses them.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any
from unittest.mock import patch

from haltline.detectors.framework.dispatch import Dispatch, Entry
from haltline.schemas.events import Kind
from haltline.schemas.policy import Policy
from haltline.streams.engine import rule_sets
from haltline.streams.engine.core import Core

_CALIBRATION = 20_000


class DetectorTimer:
    """A core whose detectors are timed. The pieces of a run may be repeated: the best time counts."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Build the core under a policy, by default the default one."""
        self._ns: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._observed: Counter[str] = Counter()
        self._best: dict[tuple[str, Hashable], int] = {}
        self._taken: dict[tuple[str, Hashable], int] = {}
        self._clock_ns = 0.0
        with patch.object(rule_sets, "Dispatch", lambda detectors: _Timed(detectors, self)):
            self.core = Core(policy)

    def begin(self) -> None:
        """Begin a piece of the events."""
        self._clock_ns = self._own_cost()
        for counted in (self._ns, self._calls, self._observed):
            counted.clear()

    def end(self, piece: Hashable) -> None:
        """End the piece, and keep the lower of its times."""
        for name, ns in self._ns.items():
            own = max(0, ns - round(self._calls[name] * self._clock_ns))
            self._best[name, piece] = min(own, self._best.get((name, piece), own))
            self._taken[name, piece] = self._observed[name]

    def costs(self, events: int) -> dict[str, tuple[float, float]]:
        """By detector: nanoseconds per event of the run, and the share of events that it observed."""
        ns: Counter[str] = Counter()
        taken: Counter[str] = Counter()
        for (name, piece), best in self._best.items():
            ns[name] += best
            taken[name] += self._taken[name, piece]
        return {name: (ns[name] / events, taken[name] / events) for name in ns}

    def timed(self, name: str, function: Callable[..., Any], counted: Counter[str] | None = None) -> Callable[..., Any]:
        """Wrap a function with timing."""
        clock, all_ns, calls = time.perf_counter_ns, self._ns, self._calls

        def timed(*given: Any) -> Any:
            calls[name] += 1
            if counted is not None:
                counted[name] += 1
            began = clock()
            try:
                return function(*given)
            finally:
                all_ns[name] += clock() - began

        return timed

    def entry(self, entry: Entry) -> Entry:
        """Wrap an entry of the engine's table with timing."""
        name, wakes, concerns, start, observe = entry
        if concerns is not None:
            concerns = self.timed(name, concerns)
        return name, wakes, concerns, start, self.timed(name, observe, self._observed)

    def _own_cost(self) -> float:
        """Nanoseconds that the two readings of the clock add, under the machine's present load."""
        self._ns.clear()
        function = self.timed("nothing", lambda _state, _act: None)
        for _ in range(_CALIBRATION):
            function(None, None)
        return self._ns["nothing"] / _CALIBRATION


class _Timed(Dispatch):
    def __init__(self, detectors: Any, timer: DetectorTimer) -> None:
        super().__init__(detectors)
        self._timer = timer
        self._wrapped: dict[tuple[Kind, int], tuple[Entry, ...]] = {}

    def table(self, kind: Kind, sights: int) -> tuple[Entry, ...]:
        found = self._wrapped.get((kind, sights))
        if found is None:
            found = self._wrapped[kind, sights] = tuple(map(self._timer.entry, super().table(kind, sights)))
        return found
