"""Hardly anything succeeds any more, whatever the reason.

Fires: `retry_storm` when `medium`, `high` or `critical` of the last `last_actions` steps failed, or
    when `fast_medium`, `fast_high` or `fast_critical` steps failed within `window_s`. The errors may all differ.
Quiet: calls that wait for something, or for a service with longer and longer pauses (see `outage`); programs that
    fail without output, such as a search that finds nothing: that is an answer; parallel calls of one model turn,
    which are one step, and failed only if all of them did; calls that were cancelled because another one of their
    turn failed.
Misses: failures that are told as successes; an agent that does something harmless between two failures.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pydantic
from pydantic import Field, model_validator

from haltline.detectors.features.error_normalization import Normalization
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.severity_counts import SEVERITIES
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, TIME_MS, Entry, entry, evidence, seconds, within
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding

_ERROR = 4
"""Where an entry has its error."""
_MAX_STEPS = 200
_OK, _FAILED = ".", "f"

_Count = Annotated[int, Field(ge=2, le=_MAX_STEPS), Stricter.LOWER]


@dataclass
class State:
    """How the last steps ended."""

    steps: str = ""
    """A letter for each of the last steps: it failed or it did not."""
    failures: list[Entry] = field(default_factory=list)
    """Those that failed, as far as they can still count."""
    step: int = 0
    """Attempts that the session had made when the last result came: those up to it are of the same step."""


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class RetryStorm(Detector[State]):
    """So many failed steps of the last ones, or in so short a time."""

    id: ClassVar[str] = "retry_storm"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.RESULT

    last_actions: Annotated[int, Field(ge=2, le=_MAX_STEPS), Stricter.HIGHER] = 25
    """Steps that are looked at."""
    medium: _Count = 15
    """Failed steps of the last ones from which on it is medium."""
    high: _Count = 20
    """From how many on it is high."""
    critical: _Count = 23
    """From how many on it is critical."""
    window_s: Annotated[float, Field(gt=0, le=86_400), Stricter.HIGHER] = 60.0
    """Seconds in which failures are fast."""
    fast_medium: _Count = 20
    """Failures in this time from which on it is medium."""
    fast_high: _Count = 30
    """From how many on it is high."""
    fast_critical: _Count = 40
    """From how many on it is critical."""

    @model_validator(mode="after")
    def _ordered(self) -> "RetryStorm":
        if not self.medium <= self.high <= self.critical <= self.last_actions:
            raise ValueError("medium <= high <= critical <= last_actions")
        if not self.fast_medium <= self.fast_high <= self.fast_critical:
            raise ValueError("fast_medium <= fast_high <= fast_critical")
        return self

    def start(self) -> State:
        """Nothing done yet."""
        return State()

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Notes how the call ended, and counts when it failed."""
        failed = act.failed
        if failed and (act.waits or act.cancelled or act.backs_off):
            return None
        error = act.error_key(Normalization.MEDIUM) if failed else ""
        if act.step <= state.step:
            if not error and state.steps[-1:] == _FAILED:  # some of its parallel calls succeeded
                state.steps = state.steps[:-1] + _OK
                del state.failures[-1:]
            return None
        state.step = max(act.index, act.calls.actions)
        state.steps = (state.steps + (_FAILED if error else _OK))[-self.last_actions :]
        if not error:
            return None
        state.failures = [e for e in state.failures if self._is_near(e, act)]
        state.failures.append(entry(act, error[:80]))
        del state.failures[: -max(self.critical, self.fast_critical)]
        of_last = state.steps.count(_FAILED)
        fast = within(state.failures, self.window_s * 1000)
        reached = sum(of_last >= step for step in (self.medium, self.high, self.critical))
        reached_fast = sum(len(fast) >= step for step in (self.fast_medium, self.fast_high, self.fast_critical))
        if not reached and not reached_fast:
            return None
        by_rate = reached_fast > reached
        rows = fast if by_rate else state.failures[-of_last:]
        kinds = len({e[_ERROR] for e in rows})
        return self.finding(
            "retry_storm",
            SEVERITIES[max(reached, reached_fast) - 1],
            f"{len(fast)} steps failed in {seconds(fast)}s"
            if by_rate
            else f"{of_last} of the last {len(state.steps)} steps failed, with {kinds} different errors",
            evidence(act, rows),
            confidence=min(1.0, max(of_last / self.critical, len(fast) / self.fast_critical)),
            values={
                "failed": of_last,
                "steps": len(state.steps),
                "failed_in_window": len(fast),
                "errors": kinds,
            },
            thresholds={
                "medium": self.medium,
                "high": self.high,
                "critical": self.critical,
                "last_actions": self.last_actions,
                "fast_medium": self.fast_medium,
                "fast_high": self.fast_high,
                "fast_critical": self.fast_critical,
                "window_s": self.window_s,
            },
        )

    def near(self, state: State) -> float:
        """Failed steps of the last ones, to the first count that is a finding."""
        return min(1.0, state.steps.count(_FAILED) / self.medium)

    def _is_near(self, failure: Entry, act: Observation) -> bool:
        if abs(act.time_ms - int(failure[TIME_MS])) <= self.window_s * 1000:
            return True
        return abs(act.index - int(failure[INDEX])) <= 2 * self.last_actions
