"""The environment that the agent works in is gone, and the agent continues to call it.

Fires: `environment_gone` when `medium`, `high` or `critical` steps failed because the container, session, disk, kernel,
    browser or connection behind the tools no longer exists, and nothing has succeeded since the first of them, within
    `window_s` or the last `last_actions` actions. The calls and the wording of the errors may differ. Errors that can
    only come from the environment (no such container, a missing disk) count by `sure`. Errors that a program may report
    about itself (a broken pipe, no memory) and things that can be started again do not.
    Failed connections and unresolved names count once per distinct call: it may be one service that is down. If they
    all come from one tool, the finding is at most high.
Quiet: any success in between, except talk; parallel calls of one model turn, which are one step; waiting for a service;
    failures most of which have other reasons, since then the environment responds.
Misses: an environment that hangs, or fails without output; errors with unknown wording.
"""

from functools import lru_cache
from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Graded, settings
from haltline.detectors.framework.severity_counts import ManyCounts
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, entry, evidence, is_near, seconds
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

_WHAT, _WEIGHT, _TOOL, _SUBJECT = range(4, 8)
"""Positions in an entry: what is gone, its weight, the tool, and the subject of the call."""

_SURE, _LINK_ONLY, _PROGRAM = range(3)
"""The environment itself is gone; only a connection failed; the error may be a program's own."""
_MAX_ROWS = 32
_Count = Annotated[int, Field(ge=2, le=_MAX_ROWS), Stricter.LOWER]
_READ_CHARS = 1024
_MAX_SUBJECT_CHARS = 160
_MOSTLY = 2 / 3
"""Minimum share of the failures that must come from the environment."""

_GONE = expression_of("the environment is gone")
_LINK = expression_of("a connection failed")
_OF_A_PROGRAM = expression_of("a program's own error")
"""Errors that a program also reports about itself."""
_CAN_BE_STARTED = re.compile(r"\bstart (?:it|one|a|the)\b|\bnot (?:been )?started\b")
_CUES = texts_of("signs of an environment that is gone")
"""Every match contains one of these, which are checked first."""


class EnvironmentGoneState(Stored):
    """Failures since the last success."""

    rows: list[Entry] = field(default_factory=list)
    """Failures of the environment, one per step."""
    others: int = 0
    """Failures for other reasons."""
    step: int = 0
    """Number of attempts when the last failure arrived: results of earlier attempts belong to the same step."""


@settings
class EnvironmentGone(Graded[EnvironmentGoneState]):
    """Consecutive steps that failed because the environment is gone."""

    id: ClassVar[str] = "environment_gone"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.RESULT
    wakes_at: ClassVar[Trait] = Trait.FAILURE

    medium: _Count = 3
    high: _Count = 5
    critical: _Count = 8
    sure: ManyCounts = (3, 4, 4)
    """The same counts for errors that can only come from the environment."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 300.0
    """Seconds. Failures within this time count together."""
    last_actions: Annotated[int, Field(ge=2, le=10_000), Stricter.HIGHER] = 20
    """Actions. Failures within this many of the session's last actions count together."""

    def observe(self, state: EnvironmentGoneState, act: Observation) -> Finding | None:
        """Count a failure of the environment; a success resets the count."""
        if not act.failed:
            if (state.rows or state.others) and not tools.thinks(act.action):
                state.rows, state.others = [], 0
            return None
        if act.cancelled:
            return None
        text = (act.event.error or act.event.output_head or "")[:_READ_CHARS]
        what, is_link = gone(text)
        if not what:
            state.others += bool(state.rows)
            return None
        if (is_link and act.waits) or act.step <= state.step:
            return None
        state.step = max(act.index, act.calls.actions)
        state.rows.append(
            entry(act, what, _weight(what, text, is_link=is_link), act.action[:80], act.subject[:_MAX_SUBJECT_CHARS])
        )
        del state.rows[:-_MAX_ROWS]
        near = [row for row in state.rows if is_near(row, act.time_ms, act.index, self)]
        count, sure = self._count(near), sum(row[_WEIGHT] == _SURE for row in near)
        if (count < self.medium and sure < self.sure[0]) or len(near) < _MOSTLY * (len(near) + state.others):
            return None
        severity = Severity.MEDIUM
        if count >= self.high:
            severity = Severity.CRITICAL if count >= self.critical and _is_sure(near) else Severity.HIGH
        if sure >= self.sure[1] and severity is not Severity.CRITICAL:
            severity = Severity.CRITICAL if sure >= self.sure[2] else Severity.HIGH
        reasons = ", ".join(dict.fromkeys(repr(row[_WHAT]) for row in near))
        return self.finding(
            "environment_gone",
            severity,
            f"{len(near)} steps in {seconds(near)}s failed because the environment is gone, none succeeded: "
            f"{reasons:.200}",
            evidence(act, near),
            confidence=min(1.0, max(count / self.critical, sure / self.sure[2])) * (1.0 if _is_sure(near) else 0.7),
            values={"failures": len(near), "counted": count, "sure": sure, "other_failures": state.others},
            thresholds=self.thresholds("medium", "high", "critical", "window_s", "last_actions"),
        )

    def near(self, state: EnvironmentGoneState) -> float:
        """Failures since the last success, relative to the first count that is a finding."""
        return min(1.0, self._count(state.rows) / self.medium)

    @staticmethod
    def _count(rows: list[Entry]) -> int:
        links = {row[_SUBJECT] for row in rows if row[_WEIGHT] == _LINK_ONLY}
        return len(links) + sum(row[_WEIGHT] != _LINK_ONLY for row in rows)


def _weight(what: str, text: str, *, is_link: bool) -> int:
    if is_link:
        return _LINK_ONLY
    return _PROGRAM if _OF_A_PROGRAM.search(what) or _CAN_BE_STARTED.search(text.lower()) else _SURE


def _is_sure(rows: list[Entry]) -> bool:
    """Return whether the errors are more than failed connections of a single tool."""
    return any(row[_WEIGHT] != _LINK_ONLY for row in rows) or len({row[_TOOL] for row in rows}) > 1


@lru_cache(maxsize=512)  # an environment that is gone repeats the same errors
def gone(text: str) -> tuple[str, bool]:
    """The text that reports a missing environment, and whether only a connection failed; else `("", False)`."""
    text = text.lower()
    if not any(cue in text for cue in _CUES):
        return "", False
    found = _GONE.search(text)
    if found is not None:
        return found[0][:80], False
    found = _LINK.search(text)
    return (found[0][:80], True) if found is not None else ("", False)
