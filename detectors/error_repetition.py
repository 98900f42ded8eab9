"""The session gets the same error again and again.

Fires: `repetitive_errors` on every error that makes the count of one normalised error reach `medium`, `high`
    or `critical`, among the last `window` errors, and within `window_s` or `last_actions`; also when errors
    alternate. A repetition counts in full when nothing succeeded since the last time, and three quarters
    when something did. When something was changed since, the count starts anew, but it is never below half
    of all: an agent that edits and tries again is working, but not for ever.
Quiet: errors that the same call has got over since (it succeeded); failures that say nothing, such as a search
    that finds nothing; errors of calls that wait for something, for the first `poll_wait_s`.
Misses: errors that are worded anew each time; loops in which every call succeeds; errors more than
    `last_actions` actions apart.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pydantic
from pydantic import Field, model_validator

from haltline.detectors.act import Act
from haltline.detectors.base import SETTINGS, Detector
from haltline.detectors.errors import Normalization
from haltline.detectors.window import INDEX, TIME_MS, Entry, entry, evidence, seconds
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

_KEY, _SUBJECT, _QUARTERS = 4, 5, 6
"""Where an entry has the normalised error, what the call was about, and how much the repetition counts."""

_FULL, _AFTER_SUCCESS, _AFTER_CHANGE = 4, 3, 0
_MAX_POLLS = 16


@dataclass(slots=True)
class State:
    """The last errors, and what happened in between."""

    errors: list[Entry] = field(default_factory=list)
    succeeded: int = 0
    """Index of the last action that succeeded."""
    changed: int = 0
    """Index of the first action since the last error that changed something, or of one before it."""
    polls: dict[str, int] = field(default_factory=dict)
    """By what is waited for: event time of its first failure, epoch milliseconds."""


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class ErrorRepetition(Detector[State]):
    """One normalised error `medium` times or more among the last `window` errors."""

    id: ClassVar[str] = "error_repetition"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})

    medium: Annotated[int, Field(ge=2, le=1000)] = 3
    high: Annotated[int, Field(ge=2, le=1000)] = 4
    critical: Annotated[int, Field(ge=2, le=1000)] = 5
    window: Annotated[int, Field(ge=2, le=1000)] = 10
    """Errors that are looked at, of whatever kind."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000)] = 60.0
    last_actions: Annotated[int, Field(ge=2, le=10_000)] = 20
    poll_wait_s: Annotated[float, Field(ge=0, le=86_400)] = 600.0
    """So long may a call that waits for something fail."""
    normalization: Normalization = Normalization.MEDIUM

    @model_validator(mode="after")
    def _ordered(self) -> "ErrorRepetition":
        if not self.medium <= self.high <= self.critical:
            raise ValueError("medium <= high <= critical")
        return self

    def start(self) -> State:
        """No errors yet."""
        return State()

    def concerns(self, act: Act) -> bool:
        """Whatever has a result."""
        return act.is_result

    def observe(self, state: State, act: Act) -> Finding | None:
        """Counts an error, or notes what happened between errors."""
        key = act.error_key(self.normalization)
        if not key:
            if not act.failed:
                self._succeeded(state, act)
            return None
        changes = act.runs and act.changes  # the edit and the try in one command
        if act.waits and self._may_wait(state, act):
            return None
        before = [e for e in self._near(state.errors, act) if e[_KEY] == key]
        quarters = _FULL
        if before:
            last = int(before[-1][INDEX])
            if changes or state.changed > last:
                quarters = _AFTER_CHANGE
            elif state.succeeded > last:
                quarters = _AFTER_SUCCESS
        if changes:
            state.changed = max(state.changed, act.index)
        state.errors.append(entry(act, key, act.subject, quarters))
        del state.errors[: -self.window]
        same = [e for e in self._near(state.errors, act) if e[_KEY] == key]
        count = _count(same)
        return self._found(act, key, same, count) if count >= self.medium else None

    def near(self, state: State) -> float:
        """The count of the last error, to the first that is a finding."""
        if not state.errors:
            return 0.0
        last = state.errors[-1]
        near = [
            e for e in state.errors if e[_KEY] == last[_KEY] and self._is_near(e, int(last[TIME_MS]), int(last[INDEX]))
        ]
        return min(1.0, _count(near) / self.medium)

    def _near(self, errors: list[Entry], act: Act) -> list[Entry]:
        return [e for e in errors if self._is_near(e, act.time_ms, act.index)]

    def _is_near(self, error: Entry, time_ms: int, index: int) -> bool:
        if abs(time_ms - int(error[TIME_MS])) <= self.window_s * 1000:
            return True
        return abs(index - int(error[INDEX])) < self.last_actions

    def _succeeded(self, state: State, act: Act) -> None:
        if not state.errors and not state.polls:
            return
        index = act.index
        state.succeeded = max(state.succeeded, index)
        if (not state.errors or state.changed <= int(state.errors[-1][INDEX])) and act.changes:
            state.changed = max(state.changed, index)
        if state.errors and not self._is_near(state.errors[-1], act.time_ms, index):
            state.errors.clear()  # all too old to count again
        subject = act.subject
        if any(e[_SUBJECT] == subject for e in state.errors):
            state.errors = [e for e in state.errors if e[_SUBJECT] != subject]
        state.polls.pop(subject, None)

    def _may_wait(self, state: State, act: Act) -> bool:
        """Whether the call has been waiting for less than it may."""
        first_ms = state.polls.setdefault(act.subject, act.time_ms)
        if len(state.polls) > _MAX_POLLS:
            del state.polls[next(iter(state.polls))]
        return act.time_ms - first_ms < self.poll_wait_s * 1000

    def _found(self, act: Act, key: str, same: list[Entry], count: float) -> Finding:
        severity = Severity.MEDIUM
        if count >= self.high:
            severity = Severity.CRITICAL if count >= self.critical else Severity.HIGH
        weighed = "" if count == len(same) else f", counted as {count:g} for what was done in between"
        return self.finding(
            "repetitive_errors",
            severity,
            f"{len(same)} times the error {key!r} in {seconds(same)}s{weighed}",
            evidence(act, same),
            confidence=min(1.0, count / self.critical),
            values={"repetition_count": len(same), "counted": count, "repeated_error": key},
            thresholds={
                "medium": self.medium,
                "high": self.high,
                "critical": self.critical,
                "window": self.window,
                "window_s": self.window_s,
                "last_actions": self.last_actions,
            },
        )


def _count(same: list[Entry]) -> float:
    """How often in a row, by what was done in between; at least half of all, since edits too must end."""
    run = 0
    for error in same:
        quarters = int(error[_QUARTERS])
        run = run + quarters if run and quarters != _AFTER_CHANGE else _FULL
    return max(run / _FULL, (len(same) + 1) / 2)
