"""Detectors of other packages: found by name, checked once, and isolated from the rest.

A package provides one by an entry point in the group `haltline.detectors`, named after the detector's id. It runs only
if a policy names it. A failure never affects other detectors. Exceptions, also in `near`, are counted under the
detector's id. Its findings and its state are checked after each event. A slow detector is switched off, if the process
provides a clock. Only a call that never returns cannot be contained: the worker's health check reports it.

Without a clock, the same input gives the same output, as everywhere else. With one, a detector that was switched off
finds nothing until the process restarts; a replay, which has no clock, includes the findings it would have made.
"""

import dataclasses
from collections.abc import Callable, Mapping
from inspect import isabstract
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector, Pattern
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding

GROUP = "haltline.detectors"
"""The entry point group."""

MAX_STATE_BYTES = 64 * 1024
"""Maximum size of a detector's state of one session, as JSON."""

_LAST_CALLS = 100
_STATE = "state"
_T = TypeVar("_T")


class PluginError(Exception):
    """A detector of another package broke its contract: which one, what was expected, what was received."""


class Stopwatch:
    """Measures the run time of other packages' detectors, and switches off one that is too slow too often.

    One per process. `clock_ns` is a monotonic clock in nanoseconds. `tell` is called for each overrun with the
    detector's id and the milliseconds that the call took.
    """

    def __init__(
        self,
        clock_ns: Callable[[], int],
        *,
        budget_ms: float = 5.0,
        overruns: int = 10,
        tell: Callable[[str, float], None] = lambda detector, took_ms: None,  # noqa: ARG005 - the names document what is passed
    ) -> None:
        if budget_ms <= 0 or not 0 <= overruns < _LAST_CALLS:
            raise ValueError(
                f"Stopwatch: expected budget_ms above 0 and 0 to {_LAST_CALLS - 1} overruns, "
                f"got {budget_ms}, {overruns}"
            )
        self._clock_ns = clock_ns
        self._budget_ns = int(budget_ms * 1e6)
        self._overruns = overruns
        self._tell = tell
        self._slow: dict[str, int] = {}
        """By detector: one bit per recent call, 1 if it exceeded the budget."""
        self.off: set[str] = set()
        """Ids of the detectors that were switched off."""

    def timed(self, detector_id: str, call: Callable[[], _T]) -> _T:
        """Return the result of the call. Raises PluginError when the detector was too slow too often."""
        start = self._clock_ns()
        try:
            return call()
        finally:
            self._took(detector_id, self._clock_ns() - start)

    def _took(self, detector_id: str, took_ns: int) -> None:
        slow = self._slow.get(detector_id, 0)
        if took_ns <= self._budget_ns and not slow:
            return
        bits = (slow << 1 | (took_ns > self._budget_ns)) & (1 << _LAST_CALLS) - 1
        self._slow[detector_id] = bits
        if took_ns <= self._budget_ns:
            return
        self._tell(detector_id, took_ns / 1e6)
        if bits.bit_count() > self._overruns:
            self.off.add(detector_id)
            raise PluginError(
                f"switched off until the process restarts: expected at most {self._overruns} of"
                f" {_LAST_CALLS} calls above {self._budget_ns / 1e6:g} ms, got one more, of {took_ns / 1e6:.1f} ms"
            )


@dataclasses.dataclass(frozen=True)
class Source:
    """The origin of a detector: `load` imports it; `place` identifies it and its package in errors."""

    load: Callable[[], object]
    place: str


class Plugins:
    """The available detectors of other packages, by id. Each is imported only when a policy names it."""

    def __init__(
        self,
        sources: Mapping[str, Source] | None = None,
        stopwatch: Stopwatch | None = None,
        others: Mapping[str, Mapping[str, Source]] | None = None,
    ) -> None:
        self.others = others or {}
        """Other entry points of the packages, by group and name."""
        self._sources = dict(sorted((sources or {}).items()))
        self._stopwatch = stopwatch
        self._classes: dict[str, type[Detector[Any]]] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all available detectors."""
        return tuple(self._sources)

    def place(self, detector_id: str) -> str:
        """The place of a detector, for errors."""
        return self._sources[detector_id].place

    def find(self, detector_id: str) -> type[Detector[Any]]:
        """The detector's class, imported at the first call.

        Raises:
            ValueError: it cannot be imported, or is not a detector with this id; names it and what was expected.

        """
        found = self._classes.get(detector_id)
        if found is None:
            found = self._classes[detector_id] = _checked(detector_id, self._sources[detector_id])
        return found

    def contain(self, detector: Detector[Any]) -> Detector[Any]:
        """Wrap a detector so that its failures are contained.

        Raises:
            ValueError: its `start` raises, or returns a state that JSON does not preserve.

        """
        place = f"rules.{detector.id}"
        try:
            state = detector.start()
            adapter: TypeAdapter[Any] = TypeAdapter(type(state))
            back = adapter.validate_python(orjson.loads(orjson.dumps(state)))
        except Exception as error:
            raise ValueError(f"{place}: expected a state that survives JSON, got {_description(error)}") from error
        if back != state:
            raise ValueError(f"{place}: expected a state that comes back equal from JSON, got {back!r:.120}")
        names = (*Pattern.__annotations__, *Detector.__annotations__)
        same = {name: getattr(detector, name) for name in names if hasattr(detector, name)}
        contained = type(f"Contained{type(detector).__name__}", (_Contained,), same)
        made: Detector[Any] = contained(inner=detector, adapter=adapter, stopwatch=self._stopwatch)
        return made


NO_PLUGINS = Plugins()
"""The built-in detectors only."""


def _checked(detector_id: str, source: Source) -> type[Detector[Any]]:
    where = f"rules.{detector_id}: {source.place}"
    try:
        found = source.load()
    except (Exception, SystemExit) as error:
        raise ValueError(f"{where}: expected a detector that can be imported, got {_description(error)}") from error
    if not (isinstance(found, type) and issubclass(found, Detector)):
        raise ValueError(
            f"{where}: expected a class derived from haltline.detectors.framework.base.Detector, got {found!r:.120}"
        )
    if isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        raise ValueError(f"{where}: expected every method of a detector, got a class without {missing}")
    if getattr(found, "id", None) != detector_id:
        raise ValueError(f"{where}: expected the id {detector_id!r}, got {getattr(found, 'id', None)!r}")
    reads = getattr(found, "reads", None)
    if not isinstance(reads, frozenset) or not all(isinstance(kind, Kind) for kind in reads):
        raise ValueError(f"{where}: expected reads, a frozenset of Kind, got {reads!r:.120}")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Contained(Detector[dict[str, Any]]):
    """A wrapped detector of another package. After a restart, its state is decoded from JSON at first use."""

    inner: Detector[Any]
    adapter: TypeAdapter[Any]
    stopwatch: Stopwatch | None

    def start(self) -> dict[str, Any]:
        return {_STATE: self.inner.start()}

    def concerns(self, act: Observation) -> bool:
        if self.stopwatch is not None and self.id in self.stopwatch.off:
            return False
        return bool(self._called(lambda: self.inner.concerns(act)))

    def observe(self, state: dict[str, Any], act: Observation) -> Finding | None:
        memory = self._memory(state)
        try:
            finding = self._called(lambda: self.inner.observe(memory, act))
        finally:
            self._check_state(state)
        return self._check(finding, act) if finding is not None else None

    def near(self, state: dict[str, Any]) -> float:
        try:
            return min(1.0, max(0.0, float(self._called(lambda: self.inner.near(self._memory(state))))))
        except Exception:  # nearness is informative only; the same error shows at its next event
            return 0.0

    def _called(self, call: Callable[[], _T]) -> _T:
        try:
            return call() if self.stopwatch is None else self.stopwatch.timed(self.id, call)
        except SystemExit as error:
            raise PluginError(f"expected it to return, got {_description(error)}") from error

    def _memory(self, state: dict[str, Any]) -> Any:
        """The detector's own state. One that cannot be decoded is reset, and reported once."""
        memory = state[_STATE]
        if isinstance(memory, (dict, list)):
            try:
                memory = self.adapter.validate_python(memory)
            except ValidationError as error:
                state[_STATE] = self.inner.start()
                raise PluginError(f"expected a state of this version, got {memory!r:.120}") from error
            state[_STATE] = memory
        return memory

    def _check_state(self, state: dict[str, Any]) -> None:
        """Reset a state that is not serializable or too large: it would end the process at a checkpoint."""
        try:
            size = len(orjson.dumps(state[_STATE]))
        except TypeError as error:
            state[_STATE] = self.inner.start()
            raise PluginError(f"expected a state of plain JSON values, got {_description(error)}") from error
        if size > MAX_STATE_BYTES:
            state[_STATE] = self.inner.start()
            raise PluginError(f"expected a state of at most {MAX_STATE_BYTES} bytes, got {size}")

    def _check(self, finding: object, act: Observation) -> Finding:
        if not isinstance(finding, Finding):
            raise PluginError(f"expected a Finding or None, got {finding!r:.120}")
        if finding.detector != self.id:
            raise PluginError(f"expected a finding in its own name, got one of {finding.detector!r}")
        if not finding.evidence or finding.evidence[-1].event_id != act.event.event_id:
            raise PluginError(f"expected evidence that ends with the event, got {finding.evidence!r:.120}")
        size = len(finding.to_json())
        if size > MAX_STATE_BYTES:
            raise PluginError(f"expected a finding of at most {MAX_STATE_BYTES} bytes, got {size}")
        return finding


def _description(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
