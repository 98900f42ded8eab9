"""What each detector takes inside of the engine's own loop, all of them at work: one pass over the events times all.

Around each `concerns` and `observe` two looks at the clock are put, whose own cost is measured and taken off. What is
worked out when it is first asked for, and then shared, is in the time of the detector that asks first.
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
    """A core whose detectors are timed, over the pieces of a run, each as often as wanted: the best time counts."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Builds the core under a policy; left out: the default one."""
        self._ns: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._observed: Counter[str] = Counter()
        self._best: dict[tuple[str, Hashable], int] = {}
        self._taken: dict[tuple[str, Hashable], int] = {}
        self._clock_ns = 0.0
        with patch.object(rule_sets, "Dispatch", lambda detectors: _Timed(detectors, self)):
            self.core = Core(policy)

    def begin(self) -> None:
        """Begins with a piece of the events."""
        self._clock_ns = self._own_cost()
        for counted in (self._ns, self._calls, self._observed):
            counted.clear()

    def end(self, piece: Hashable) -> None:
        """The piece is done: keeps what is less than the last time."""
        for name, ns in self._ns.items():
            own = max(0, ns - round(self._calls[name] * self._clock_ns))
            self._best[name, piece] = min(own, self._best.get((name, piece), own))
            self._taken[name, piece] = self._observed[name]

    def costs(self, events: int) -> dict[str, tuple[float, float]]:
        """By detector: nanoseconds for each of all events, and the share of the events that it took in."""
        ns: Counter[str] = Counter()
        taken: Counter[str] = Counter()
        for (name, piece), best in self._best.items():
            ns[name] += best
            taken[name] += self._taken[name, piece]
        return {name: (ns[name] / events, taken[name] / events) for name in ns}

    def timed(self, name: str, function: Callable[..., Any], counted: Counter[str] | None = None) -> Callable[..., Any]:
        """The function, timed."""
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
        """An entry of the engine's table, timed."""
        name, wakes, concerns, start, observe = entry
        if concerns is not None:
            concerns = self.timed(name, concerns)
        return name, wakes, concerns, start, self.timed(name, observe, self._observed)

    def _own_cost(self) -> float:
        """What the two looks at the clock add to a time, by a function that does nothing; the machine's load counts."""
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
