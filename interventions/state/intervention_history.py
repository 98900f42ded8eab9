"""What a session remembers of its interventions: which were said, and whether they helped. Plain JSON values.

An intervention is judged by what followed. It helped (1) when its rule then stayed quiet for `HELPED_ACTIONS`
actions; it helped by half (0.5) when the next finding of that rule was less severe; else it did not help (0).
What comes within the cooldown says nothing yet: the agent may not have heard.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from haltline.schemas.decisions import Level
from haltline.schemas.findings import Severity

HELPED_ACTIONS: Final = 10
"""Actions of the session without another finding of the rule, after which an intervention has helped."""
MAX_ENTRIES: Final = 32
"""Interventions that are remembered, of those that were said and of those that were held back; the oldest go first."""
MAX_ISSUES: Final = 8
"""Times of issues that are remembered of a rule."""
MAX_RULES: Final = 64
"""Rules of which issues are remembered."""
MAX_REFUSED: Final = 32
"""Refused calls that are remembered, to know one that is tried again."""
REFUSED_WITHIN_MS: Final = 3_600_000
"""A refused call that is tried again later counts as another."""


@dataclass
class Entry:
    """One intervention that was said."""

    rule: str
    level: str
    severity: str
    time_ms: int
    action: int
    """Index of the session's action at which it was said."""
    helped: float | None = None
    """0 to 1; None: not known yet."""
    said: bool = True
    """False: its mode held it back, and the agent heard nothing; its rule goes on as if it had."""


@dataclass
class Kept:
    """A checkpoint of the agent's side."""

    id: str
    time_ms: int
    offset: int | None
    """Of its event in the log; None: it was not read from one."""
    action: int
    safe: bool
    rate: float
    """Of the calls since the checkpoint before it: how many succeeded, 0 to 1."""
    quiet_ms: int | None
    """How long before it the last error was; None: there was none since checkpoints are kept."""


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
    """A review of the tier was asked for, since the debt last fell below it."""


@dataclass
class History:
    """What is remembered of a session once there was something to say about it."""

    entries: list[Entry] = field(default_factory=list)
    hints: int = 0
    """How often the agent heard a NUDGE or REINFORCE."""
    issues: dict[str, list[int]] = field(default_factory=dict)
    """By rule: event times of its last findings."""
    refused: dict[str, list[int]] = field(default_factory=dict)
    """By short fingerprint of a refused call: how often, and the event time of the first."""
    limits: dict[str, float] = field(default_factory=dict)
    """What was lowered so far."""
    trust: Trust | None = None

    def note_issue(self, rule: str, time_ms: int) -> None:
        """A finding of a rule."""
        times = self.issues.setdefault(rule, [])
        times.append(time_ms)
        del times[:-MAX_ISSUES]
        if len(self.issues) > MAX_RULES:
            del self.issues[next(iter(self.issues))]

    def recent_issues(self, rule: str, since_ms: int) -> int:
        """Findings of a rule since a moment."""
        return sum(time >= since_ms for time in self.issues.get(rule, ()))

    def judge(self, rule: str, severity: Severity, time_ms: int, action: int, cooldown_ms: float) -> Entry | None:
        """A new finding of a rule shows whether its last intervention helped: the one that is known of now."""
        last = self.last(rule)
        if last is None or last.helped is not None:
            return None
        if action - last.action >= HELPED_ACTIONS:
            last.helped = 1.0
        elif time_ms - last.time_ms >= cooldown_ms:
            last.helped = 0.5 if severity < Severity(last.severity) else 0.0
        return None if last.helped is None else last

    def settle(self, action: int) -> Iterator[Entry]:
        """The last interventions of rules that stayed quiet for long enough have helped: those known of now."""
        last = {entry.rule: entry for entry in self.entries}
        for entry in last.values():
            if entry.helped is None and action - entry.action >= HELPED_ACTIONS:
                entry.helped = 1.0
                yield entry

    def note(self, entry: Entry) -> None:
        """An intervention that is said."""
        self.entries.append(entry)
        if len(self.entries) > MAX_ENTRIES:
            # What was held back and what was said are bounded apart: a rule in shadow makes nothing forgotten.
            same = [number for number, known in enumerate(self.entries) if known.said is entry.said]
            for number in reversed(same[:-MAX_ENTRIES]):
                del self.entries[number]

    def forgive(self) -> None:
        """A person has let pass what was paused: the warnings before it count as followed, and begin anew."""
        for entry in self.entries:
            if entry.level == Level.PAUSE.value:
                entry.helped = 1.0

    def withdraw(self, rule: str, time_ms: int) -> None:
        """Forgets what a rule's finding at this moment led to, as if it had not been said."""
        for number, entry in enumerate(self.entries):
            if entry.rule == rule and entry.time_ms == time_ms:
                self.hints -= entry.said and self.hints > 0
                del self.entries[number]
                return

    def last(self, rule: str) -> Entry | None:
        """The last intervention of a rule."""
        return next((e for e in reversed(self.entries) if e.rule == rule), None)

    def streak(self, rule: str, effective: float) -> Iterator[Entry]:
        """The newest interventions of a rule that are known not to have helped, back to one that did."""
        for entry in reversed(self.entries):
            if entry.rule != rule or entry.helped is None:
                continue
            if entry.helped >= effective:
                return
            yield entry

    def recent(self, rule: str, since_ms: int) -> list[Entry]:
        """The interventions of a rule since a moment whose effect is known."""
        return [e for e in self.entries if e.rule == rule and e.time_ms >= since_ms and e.helped is not None]

    def refuse(self, fingerprint: str, time_ms: int) -> int:
        """Notes that a call is refused; how often this same one was, this time included."""
        known = self.refused.pop(fingerprint, None)
        if known is None or time_ms - known[1] > REFUSED_WITHIN_MS:
            known = [0, time_ms]
        known[0] += 1
        self.refused[fingerprint] = known
        if len(self.refused) > MAX_REFUSED:
            del self.refused[next(iter(self.refused))]
        return known[0]
