"""The interventions of a session, and whether they helped. Plain JSON values.

An intervention is judged by the events after it. It helped (1) if its rule did not fire for `HELPED_ACTIONS` actions;
it helped by half (0.5) if the next finding of that rule was less severe; else it did not help (0). Findings within the
cooldown do not count: the agent may not have received it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from haltline.schemas.decisions import Level
from haltline.schemas.findings import Severity

HELPED_ACTIONS: Final = 10
"""Actions of the session without another finding of the rule, after which an intervention has helped."""
MAX_ENTRIES: Final = 32
"""Interventions stored, of those published and of those held back; the oldest are dropped first."""
MAX_ISSUES: Final = 8
"""Times of issues stored per rule."""
MAX_RULES: Final = 64
"""Rules with stored issues."""
MAX_REFUSED: Final = 32
"""Refused calls stored, to recognize repetitions."""
REFUSED_WITHIN_MS: Final = 3_600_000
"""A refused call that is repeated later counts as a new one."""


@dataclass
class Entry:
    """A published intervention."""

    rule: str
    level: str
    severity: str
    time_ms: int
    action: int
    """Index of the session's action at that time."""
    helped: float | None = None
    """0 to 1; None: unknown."""
    said: bool = True
    """False: its mode held it back, so the agent did not receive it; its rule continues as if it had."""
    silent: bool = False
    """The policy's experiment held it back: everything continues as if it had been said."""


@dataclass
class Kept:
    """A checkpoint saved by the agent's side."""

    id: str
    time_ms: int
    offset: int | None
    """The offset of its event in the log; None: it was not read from a log."""
    action: int
    safe: bool
    rate: float
    """The share of calls since the previous checkpoint that succeeded, 0 to 1."""
    quiet_ms: int | None
    """Milliseconds from the last error to the checkpoint; None: no error since checkpoints are saved."""


@dataclass
class Checkpoints:
    """The checkpoints of a session, the newest last."""

    kept: list[Kept] = field(default_factory=list)
    succeeded: int = 0
    """Calls since the newest one that succeeded."""
    failed: int = 0
    error_ms: int | None = None
    """Event time of the last call that failed."""


@dataclass
class Trust:
    """The trust debt of a session."""

    debt: float = 0.0
    at_ms: int = 0
    reviewed: bool = False
    """A review of the tier was requested since the debt last fell below it."""


@dataclass
class History:
    """The history of a session, created at its first intervention."""

    entries: list[Entry] = field(default_factory=list)
    hints: int = 0
    """How many NUDGEs and REINFORCEs the agent received, or an experiment held back."""
    issues: dict[str, list[int]] = field(default_factory=dict)
    """By rule: event times of its last findings."""
    refused: dict[str, list[int]] = field(default_factory=dict)
    """By short fingerprint of a refused call: the number of attempts, and the event time of the first."""
    limits: dict[str, float] = field(default_factory=dict)
    """The limits lowered so far."""
    trust: Trust | None = None

    def note_issue(self, rule: str, time_ms: int) -> None:
        """Store a finding of a rule."""
        times = self.issues.setdefault(rule, [])
        times.append(time_ms)
        del times[:-MAX_ISSUES]
        if len(self.issues) > MAX_RULES:
            del self.issues[next(iter(self.issues))]

    def recent_issues(self, rule: str, since_ms: int) -> int:
        """Return the number of findings of a rule since a time."""
        return sum(time >= since_ms for time in self.issues.get(rule, ()))

    def judge(self, rule: str, severity: Severity, time_ms: int, action: int, cooldown_ms: float) -> Entry | None:
        """Judge the last intervention of a rule by a new finding. Returns it if its effect is known now."""
        last = self.last(rule)
        if last is None or last.helped is not None:
            return None
        if action - last.action >= HELPED_ACTIONS:
            last.helped = 1.0
        elif time_ms - last.time_ms >= cooldown_ms:
            last.helped = 0.5 if severity < Severity(last.severity) else 0.0
        return None if last.helped is None else last

    def settle(self, action: int) -> Iterator[Entry]:
        """Mark the last interventions of quiet rules as helpful. Yields those whose effect is known now."""
        last = {entry.rule: entry for entry in self.entries}
        for entry in last.values():
            if entry.helped is None and action - entry.action >= HELPED_ACTIONS:
                entry.helped = 1.0
                yield entry

    def note(self, entry: Entry) -> None:
        """Store an intervention."""
        self.entries.append(entry)
        if len(self.entries) > MAX_ENTRIES:
            # Published and held back interventions have separate limits, so a rule in shadow mode displaces none.
            same = [number for number, known in enumerate(self.entries) if known.said is entry.said]
            for number in reversed(same[:-MAX_ENTRIES]):
                del self.entries[number]

    def forgive(self) -> None:
        """Mark the warnings before an approved pause as followed, so that they start again."""
        for entry in self.entries:
            if entry.level == Level.PAUSE.value:
                entry.helped = 1.0

    def last(self, rule: str) -> Entry | None:
        """Return the last intervention of a rule."""
        return next((e for e in reversed(self.entries) if e.rule == rule), None)

    def streak(self, rule: str, effective: float) -> Iterator[Entry]:
        """Yield the newest interventions of a rule that did not help, back to one that did."""
        for entry in reversed(self.entries):
            if entry.rule != rule or entry.helped is None:
                continue
            if entry.helped >= effective:
                return
            yield entry

    def recent(self, rule: str, since_ms: int) -> list[Entry]:
        """Return the interventions of a rule since a time whose effect is known."""
        return [e for e in self.entries if e.rule == rule and e.time_ms >= since_ms and e.helped is not None]

    def refuse(self, fingerprint: str, time_ms: int) -> int:
        """Count a refused call. Returns the number of its refusals, including this one."""
        known = self.refused.pop(fingerprint, None)
        if known is None or time_ms - known[1] > REFUSED_WITHIN_MS:
            known = [0, time_ms]
        known[0] += 1
        self.refused[fingerprint] = known
        if len(self.refused) > MAX_REFUSED:
            del self.refused[next(iter(self.refused))]
        return known[0]
