"""What every detector is: settings, a state for each session, and a look at the next event."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from haltline.detectors.features.observation import Observation, Trait
from haltline.schemas.events import Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.record import Values

State = TypeVar("State")

SETTINGS = ConfigDict(extra="forbid")
"""A setting that is not known is an error: a misspelt threshold must not be a default."""


@dataclass(frozen=True, kw_only=True, config=SETTINGS)
class Pattern(ABC, Generic[State]):
    """One pattern to look for, in one session or across several.

    It is its settings only, checked at construction. What it remembers of a session, or of what else it
    looks at, is a State, which the engine keeps, saves and drops: a dataclass of plain JSON
    values, bounded in size, that comes back equal from JSON and MessagePack. Without slots.
    """

    id: ClassVar[str]
    version: ClassVar[int] = 1
    optional: ClassVar[bool] = False
    """Runs only where a policy names it: it found nothing that others did not in the sessions that were judged."""

    @abstractmethod
    def start(self) -> State:
        """The state when nothing was seen yet."""

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


@dataclass(frozen=True, kw_only=True, config=SETTINGS)
class Detector(Pattern[State]):
    """Looks for one pattern in the events of one session."""

    reads: ClassVar[frozenset[Kind]]
    """The kinds of event that it is called with."""
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

    def near(self, state: State) -> float:  # noqa: ARG002 - as above
        """How close the session is to a finding, from 0 (nothing seen) to 1 (found)."""
        return 0.0
