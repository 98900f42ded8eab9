"""Base classes of detectors: settings, a state per session, and a method that observes the next event."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, dataclass_transform, get_args

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.severity_counts import severity_of, thresholds_of
from haltline.schemas.events import Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.record import Values
from haltline.schemas.stored import Stored

State = TypeVar("State")
_T = TypeVar("_T")

SETTINGS = ConfigDict(extra="forbid")
"""An unknown setting is an error: a misspelt threshold must not silently become the default."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field, dataclasses.field))
def settings(pattern: type[_T]) -> type[_T]:
    """Turn the fields of a pattern into its settings: keyword only, validated at construction, and immutable."""
    return cast("type[_T]", dataclass(frozen=True, kw_only=True, config=SETTINGS)(pattern))


@settings
class Pattern(ABC, Generic[State]):
    """A pattern to look for, in one session or across several.

    An instance holds only its settings, validated at construction. What a pattern keeps per session (or agent, target,
    tree) is a State, which the engine stores, checkpoints and deletes. A State is a msgspec struct or a dataclass of
    plain JSON values, is bounded in size, and survives a round trip through JSON and MessagePack unchanged.
    """

    id: ClassVar[str]
    version: ClassVar[int] = 1
    optional: ClassVar[bool] = False
    """Runs only if a policy names it: in the labelled sessions it found nothing that the other detectors did not."""

    ascending: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of setting names; in each group, a setting's value must be at least that of the one before."""

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        for names in self.ascending:
            if any(one > other for one, other in pairwise(getattr(self, name) for name in names)):
                raise ValueError(" <= ".join(names))
        return self

    def start(self) -> State:
        """The initial state: by default a new instance of the class that the pattern is declared with."""
        return cast("State", _state_of(type(self))())

    def thresholds(self, *names: str) -> Values:
        """The values of these settings by name, for a finding."""
        return {name: getattr(self, name) for name in names}

    def finding(  # the fields of a finding, in the order of its definition
        self,
        code: str,
        severity: Severity,
        reason: str,
        evidence: tuple[Evidence, ...],
        *,
        confidence: float = 1.0,
        values: Values | None = None,
        thresholds: Values | None = None,
        target: str | None = None,
        session_id: str | None = None,
    ) -> Finding:
        """Build a finding of this pattern."""
        return Finding(
            detector=self.id,
            detector_version=self.version,
            code=code,
            severity=severity,
            confidence=confidence,
            reason=reason,
            evidence=evidence,
            values=values or {},
            thresholds=thresholds or {},
            target=target,
            session_id=session_id,
        )


@lru_cache(maxsize=1024)
def _state_of(pattern: type[Pattern[Any]]) -> Callable[[], Any]:
    """The state class of a pattern: `State` in `Detector[State]`, of the class or of one of its base classes."""
    declared = (base for one in pattern.__mro__ for base in vars(one).get("__orig_bases__", ()))
    return next(state for base in declared for state in get_args(base) if isinstance(state, type))


@settings
class Detector(Pattern[State]):
    """A detector: looks for one pattern in the events of one session."""

    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED, Kind.COMPLETED})
    """The kinds of events passed to `observe`; by default those of calls."""
    recalls: ClassVar[bool] = False
    """Uses `Observation.again`, or the fingerprint of a result; calls are remembered by fingerprint only then."""
    measures: ClassVar[bool] = False
    """Uses `Observation.novelty`, and sets `recalls` too; the progress of a session is measured only then."""
    combines: ClassVar[bool] = False
    """Uses `Observation.found`: the findings of other rules, including those in shadow mode."""
    sees: ClassVar[Trait] = Trait.ANYTHING
    """Only events with one of these traits are passed to `observe`."""
    wakes_at: ClassVar[Trait] = Trait.ANYTHING
    """Without a state, only events with one of these traits are passed to `observe`: earlier ones are irrelevant."""

    @abstractmethod
    def observe(self, state: State, act: Observation) -> Finding | None:
        """Process the session's next event; return a finding if this event completes the pattern.

        Changes `state` in place, never `act`. Events may arrive late, and repeated calls may be missing: must not raise
        for an event older than the last. Reads no clock, does no I/O.
        """

    @property
    def idle(self) -> bool:
        """Return whether these settings rule out any finding; the detector is then not run."""
        return False

    def concerns(self, act: Observation) -> bool:
        """Return False if this event cannot matter; it then creates no state. Cheap. The default uses `sees`."""
        return bool(self.sees & act.sights)

    def near(self, state: State) -> float:
        """How close the session is to a finding, from 0 to 1 (found); by default the state's `nearness`."""
        return getattr(state, "nearness", 0.0)

    def counted(
        self,
        code: str,
        count: float,
        counts: tuple[float, float, float],
        reason: str,
        evidence: tuple[Evidence, ...],
        *,
        also: Values | None = None,
        target: str | None = None,
        confidence: float | None = None,
        **values: float | int | str,
    ) -> Finding | None:
        """Build a finding with the severity whose count is reached; None below the first.

        Args:
            code: the finding's code.
            count: the count to compare.
            counts: the lowest counts that are medium, high and critical.
            reason: the finding's text.
            evidence: the counted events.
            also: further thresholds.
            target: the finding's target.
            confidence: from 0 to 1; None: the count as a share of the critical one.
            values: the finding's values.

        """
        severity = severity_of(count, counts)
        if severity is None:
            return None
        sure = min(1.0, count / counts[2]) if confidence is None else confidence
        thresholds = thresholds_of(counts) | (also or {})
        return self.finding(
            code, severity, reason, evidence, confidence=sure, values=values, thresholds=thresholds, target=target
        )


@settings
class Graded(Detector[State]):
    """A detector of a count, with one setting per severity. Each subclass has its own bounds and defaults."""

    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("medium", "high", "critical"),)

    medium: int
    """The lowest count that is medium."""
    high: int
    """The lowest count that is high."""
    critical: int
    """The lowest count that is critical."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """The lowest counts that are medium, high and critical."""
        return self.medium, self.high, self.critical


class Nearness(Stored):
    """How close the session is to a finding, from 0 to 1 (found)."""

    nearness: float = 0.0


class Attempts(Stored):
    """The number of attempts."""

    attempts: int = 0


_Attempts = TypeVar("_Attempts", bound=Attempts)


@settings
class OfAttempts(Detector[_Attempts]):
    """A detector of single attempts that were not refused: already the first one is a finding."""

    sees: ClassVar[Trait] = Trait.ATTEMPT

    def near(self, state: _Attempts) -> float:
        """1 after the first attempt, else 0."""
        return 1.0 if state.attempts else 0.0


def worst_of(findings: Iterable[Finding | None]) -> Finding | None:
    """The most severe finding; of equal ones the first."""
    return max((f for f in findings if f is not None), key=lambda f: f.severity, default=None)
