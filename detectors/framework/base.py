"""What every detector is: settings, a state for each session, and a look at the next event."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, dataclass_transform, get_args

import msgspec
from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.severity_counts import severity_of, thresholds_of
from haltline.schemas.events import Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.record import Values

State = TypeVar("State")
_T = TypeVar("_T")

SETTINGS = ConfigDict(extra="forbid")
"""A setting that is not known is an error: a misspelt threshold must not be a default."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field, dataclasses.field))
def settings(pattern: type[_T]) -> type[_T]:
    """Makes the fields of a pattern its settings: named, checked at construction, and fixed from then on."""
    return cast("type[_T]", dataclass(frozen=True, kw_only=True, config=SETTINGS)(pattern))


@settings
class Pattern(ABC, Generic[State]):
    """One pattern to look for, in one session or across several.

    It is its settings only, checked at construction. What it remembers of a session, or of what else it
    looks at, is a State, which the engine keeps, saves and drops: a struct of msgspec, or a
    dataclass, of plain JSON values, bounded in size, that comes back equal from JSON and MessagePack.
    """

    id: ClassVar[str]
    version: ClassVar[int] = 1
    optional: ClassVar[bool] = False
    """Runs only where a policy names it: it found nothing that others did not in the sessions that were judged."""

    ascending: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Names of settings each of which is at least the one before."""

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        for names in self.ascending:
            if any(one > other for one, other in pairwise(getattr(self, name) for name in names)):
                raise ValueError(" <= ".join(names))
        return self

    def start(self) -> State:
        """The state when nothing was seen yet: by itself a new one of the class that the pattern is declared with."""
        return cast("State", _state_of(type(self))())

    def thresholds(self, *names: str) -> Values:
        """These settings by name, for a finding."""
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
        """A finding of this pattern."""
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
    """The class of the states of a pattern: `State` in `Detector[State]`, of itself or of the class it is made from."""
    declared = (base for one in pattern.__mro__ for base in vars(one).get("__orig_bases__", ()))
    return next(state for base in declared for state in get_args(base) if isinstance(state, type))


@settings
class Detector(Pattern[State]):
    """Looks for one pattern in the events of one session."""

    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED, Kind.COMPLETED})
    """The kinds of event that it is called with; by itself calls."""
    recalls: ClassVar[bool] = False
    """It asks for `Observation.again`, or for the fingerprint of a result: only then are calls remembered by theirs."""
    measures: ClassVar[bool] = False
    """It asks for `Observation.novelty`, and says `recalls` too: only then is the progress of a session measured."""
    combines: ClassVar[bool] = False
    """It reads what others found, rules in shadow included: `Observation.found`."""
    sees: ClassVar[Trait] = Trait.ANYTHING
    """It is called with events of which one of these holds."""
    wakes_at: ClassVar[Trait] = Trait.ANYTHING
    """Until it has a state, it is called only when one of these holds: what comes before says nothing to it."""

    @abstractmethod
    def observe(self, state: State, act: Observation) -> Finding | None:
        """Takes in the session's next event; a finding on the event that completes one.

        Changes `state` in place, never `act`. Events may come late, repeated calls may be
        missing: never raises for one that is older than the last. Reads no clock, does no I/O.
        """

    @property
    def idle(self) -> bool:
        """Whether it can find nothing with these settings: then it is not run."""
        return False

    def concerns(self, act: Observation) -> bool:
        """False: this event cannot matter, no state is made for it. Must be cheap. By itself what `sees` says."""
        return bool(self.sees & act.sights)

    def near(self, state: State) -> float:
        """How close the session is to a finding, from 0 (nothing seen) to 1 (found). By itself what the state says."""
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
        """A finding of the severity whose count is reached; None below the first.

        Args:
            code: what was found.
            count: how many there are.
            counts: from how many on it is medium, high, critical.
            reason: its text.
            evidence: the events that were counted.
            also: other thresholds.
            target: what it is about.
            confidence: from 0 to 1; None: the count as a part of the critical one.
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
    """A detector of a count, with a setting for each severity. Each has bounds and defaults of its own."""

    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("medium", "high", "critical"),)

    medium: int
    """From how many on it is medium."""
    high: int
    """From how many on it is high."""
    critical: int
    """From how many on it is critical."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """The three of them."""
        return self.medium, self.high, self.critical


class Attempts(msgspec.Struct):
    """How many attempts there were."""

    attempts: int = 0


_Attempts = TypeVar("_Attempts", bound=Attempts)


@settings
class OfAttempts(Detector[_Attempts]):
    """A detector of single attempts, each of which is one too many."""

    sees: ClassVar[Trait] = Trait.ATTEMPT

    def near(self, state: _Attempts) -> float:
        """1 once it was tried."""
        return 1.0 if state.attempts else 0.0


def worst_of(findings: Iterable[Finding | None]) -> Finding | None:
    """The most severe one; of several the first."""
    return max((f for f in findings if f is not None), key=lambda f: f.severity, default=None)
