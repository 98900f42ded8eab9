"""The session looks for something again and again, in other words each time, and finds nothing.

Fires: `fruitless_search` when `medium`, `high` or `critical` looks in a row came back with nothing: an empty result, or
    one that begins by saying that there is none. The looks may all differ.
Quiet: after a look that finds something, and after any other call that did something: work lies in between; thoughts
    change nothing; looks whose results nobody tells.
Misses: results that are long and say only at the end that there is nothing; searches that always find something else
    than what is looked for; looking for nothing else than whether there is none, more than `critical` times.
"""

import re
from dataclasses import dataclass, field
from typing import ClassVar

import pydantic

from haltline.detectors.act import Act, Sight
from haltline.detectors.base import SETTINGS, Detector
from haltline.detectors.counts import ManyCounts
from haltline.detectors.window import Entry, entry, evidence, seconds
from haltline.schemas.events import Effect, Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Reading

# Looked up at every event: from their class, members take ten times as long.
_SHELL, _READ = Reading.SHELL, Effect.READ

_MAX_ROWS = 16
_READ_CHARS = 120
_NOTHING = re.compile(
    r"^\W*(?:no (?:\w+ ){0,2}(?:match(?:es)?|results?|hits?|files?|entries|records?|rows?|items?|data|documents?)\b"
    r"|nothing (?:was )?found|none found|not found|0 (?:match(?:es)?|results?|hits?|rows?|files?|documents?)\b"
    r"|found 0\b|\d+ files? searched, 0\b|null|none|\(?empty\)?)|^\W*$",
    re.IGNORECASE,
)
_LOOKS = re.compile(
    r"\s*(?:cd\s+[^\s;&|]+\s*(?:&&|;)\s*)?(?:git\s+(?:-C\s+\S+\s+)?(?:grep|log|ls-files)|grep|egrep|rg|ag|fd|find|locate"
    r"|which|ls)(?=\s|$)"
)
_TALK = frozenset(("think", "say", "note", "plan", "reflect", "thought"))


@dataclass
class State:
    """The last looks in a row that found nothing."""

    count: int = 0
    rows: list[Entry] = field(default_factory=list)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class FruitlessSearch(Detector[State]):
    """So many looks in a row that found nothing."""

    id: ClassVar[str] = "fruitless_search"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})
    sees: ClassVar[Sight] = Sight.RESULT

    looks: ManyCounts = (10, 16, 30)
    """Looks in a row that found nothing from which on it is medium, high, critical."""

    def start(self) -> State:
        """Nothing looked for."""
        return State()

    def observe(self, state: State, act: Act) -> Finding | None:
        """Counts a look that found nothing, or begins anew."""
        if not (_is_look(act) and _is_empty(act)):
            if state.count and act.action not in _TALK:
                state.count, state.rows = 0, []
            return None
        state.count += 1
        state.rows.append(entry(act))
        del state.rows[:-_MAX_ROWS]
        reached = sum(state.count >= step for step in self.looks)
        if not reached:
            return None
        medium, high, critical = self.looks
        return self.finding(
            "fruitless_search",
            (Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL)[reached - 1],
            f"{state.count} looks in a row found nothing, the last {len(state.rows)} in {seconds(state.rows)}s, such as"
            f" {act.subject:.120}",
            evidence(act, state.rows),
            confidence=min(1.0, state.count / critical),
            values={"looks": state.count},
            thresholds={"medium": medium, "high": high, "critical": critical},
        )

    def near(self, state: State) -> float:
        """The looks in a row, to the first count that is a finding."""
        return min(1.0, state.count / self.looks[0])


def _is_empty(act: Act) -> bool:
    """Whether it came back with nothing, as far as it is told."""
    event = act.event
    if act.failed and (event.error or "").strip() and not act.runs:
        return False  # that is an error
    if event.output_bytes == 0:
        return True
    head = event.output_head
    return head is not None and _NOTHING.match(head, 0, _READ_CHARS) is not None


def _is_look(act: Act) -> bool:
    if act.refused or act.action in _TALK:
        return False
    if act.runs:
        return act.tool.reading is _SHELL and _LOOKS.match(act.text) is not None and not act.changes
    return act.tool.effect is _READ
