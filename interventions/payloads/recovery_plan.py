"""Recovery plans after an intervention, by its cause: for the agent's side and for people. Pure.

The kinds of failure, the ways of recovery for each with their number of attempts, and the three situations with a
guided plan are the published ones; the steps are ours. One published default differs: a recovery that waits for a
person without an answer would have continued. Here it stays paused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from haltline.schemas.decisions import Level
from haltline.schemas.findings import Finding
from haltline.schemas.payloads import Recovery


class RecoveryStrategy(StrEnum):
    """The way of a recovery."""

    AUTOMATIC = "automatic"
    """Retry automatically with backoff."""
    GUIDED = "guided"
    """Follow the steps."""
    CHECKPOINT = "checkpoint"
    """Restore a checkpoint."""
    COLLABORATIVE = "collaborative"
    """Ask a person."""
    SELF_HEALING = "self_healing"
    """Correct the error."""


@dataclass(frozen=True, slots=True)
class _RecoveryTemplate:
    ways: tuple[RecoveryStrategy, ...]
    attempts: int
    steps: tuple[str, ...]
    wait_s: int | None = None


_BACKOFF: Final = 2.0
_TIMEOUT_S: Final = 300
_STAY: Final = "Stay paused until a person has reviewed it."

_FAILURES: Final[Mapping[str, _RecoveryTemplate]] = {
    "file_not_found": _RecoveryTemplate(
        (RecoveryStrategy.AUTOMATIC, RecoveryStrategy.GUIDED),
        3,
        (
            "List the folder where it should be.",
            "Look for another spelling of the name.",
            "If it is not there, report that.",
        ),
    ),
    "permission_denied": _RecoveryTemplate(
        (RecoveryStrategy.COLLABORATIVE,),
        1,
        ("Say what you need to do and which permissions it takes.", "Wait for a person to grant them."),
    ),
    "syntax_error": _RecoveryTemplate(
        (RecoveryStrategy.SELF_HEALING, RecoveryStrategy.GUIDED),
        2,
        (
            "Read the line that the message names, and the one before it.",
            "Correct it there.",
            "Check it before you run it.",
        ),
    ),
    "import_error": _RecoveryTemplate(
        (RecoveryStrategy.SELF_HEALING, RecoveryStrategy.GUIDED),
        2,
        ("List the installed packages.", "Use an installed one, or ask for the missing one."),
    ),
    "connection_timeout": _RecoveryTemplate(
        (RecoveryStrategy.AUTOMATIC, RecoveryStrategy.COLLABORATIVE),
        3,
        ("Wait, then try once more.", "Check whether the host is reachable at all.", "If not, report it."),
        wait_s=2,
    ),
    "rate_limit_exceeded": _RecoveryTemplate(
        (RecoveryStrategy.AUTOMATIC, RecoveryStrategy.GUIDED),
        3,
        ("Wait as long as the response says.", "Make fewer calls, each with more work."),
        wait_s=30,
    ),
}
_SIGNS: Final = (
    ("rate_limit_exceeded", re.compile(r"rate.?limit|too many requests|\b429\b|quota", re.IGNORECASE)),
    ("import_error", re.compile(r"no module named|importerror|cannot import|modulenotfound", re.IGNORECASE)),
    ("syntax_error", re.compile(r"syntax ?error|indentationerror|unexpected (?:token|indent|eof)", re.IGNORECASE)),
    (
        "file_not_found",
        re.compile(r"no such file|not[ _]found|does(?: not|n't) exist|cannot find|\b404\b", re.IGNORECASE),
    ),
    ("permission_denied", re.compile(r"permission|denied|forbidden|unauthori[sz]ed|\b40[13]\b", re.IGNORECASE)),
    ("connection_timeout", re.compile(r"timed? ?out|connection|unreachable|could not resolve", re.IGNORECASE)),
)
"""In this order: a missing module is not a missing file."""

_SITUATIONS: Final[Mapping[str, _RecoveryTemplate]] = {
    "stuck_in_loop": _RecoveryTemplate(
        (RecoveryStrategy.GUIDED, RecoveryStrategy.CHECKPOINT),
        2,
        (
            "Say what you were trying to achieve, and what happened each time.",
            "Look at the current state without changing it.",
            "Choose an approach that differs in more than its arguments, or report that there is none.",
        ),
    ),
    "lost_context": _RecoveryTemplate(
        (RecoveryStrategy.GUIDED, RecoveryStrategy.COLLABORATIVE),
        2,
        (
            "Read the task again.",
            "List what is done and what is left.",
            "Continue with the next step of the task, and leave out what is not part of it.",
        ),
    ),
    "resource_exhaustion": _RecoveryTemplate(
        (RecoveryStrategy.CHECKPOINT, RecoveryStrategy.AUTOMATIC),
        2,
        ("Stop what is still running.", "Leave out what is not needed.", "Continue with a smaller piece."),
    ),
}
_SITUATION_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("goal_drift", "scope_creep", "hallucination", "behavioral_drift"), "lost_context"),
    **dict.fromkeys(("resource_growth", "budget", "spend_velocity"), "resource_exhaustion"),
}
"""By rule; all others are stuck in a loop."""


def failure_of(text: str) -> str | None:
    """Return the kind of failure of an error message; None: unknown."""
    return next((name for name, sign in _SIGNS if sign.search(text, 0, 4096)), None)


def recovery(level: Level, finding: Finding, error: str | None) -> Recovery:
    """Return the recovery plan. After a kill, a person always starts it."""
    errors = f"{finding.values.get('repeated_error', '')} {finding.values.get('errors', '')} {error or ''}"
    failure = failure_of(errors) if finding.detector not in _SITUATION_OF else None
    situation = failure or _SITUATION_OF.get(finding.detector, "stuck_in_loop")
    known = _FAILURES.get(situation) or _SITUATIONS[situation]
    ways = known.ways
    if level is Level.ROLLBACK:
        ways = (RecoveryStrategy.CHECKPOINT, *(way for way in ways if way is not RecoveryStrategy.CHECKPOINT))
    elif level in (Level.PAUSE, Level.KILL):
        ways = (RecoveryStrategy.COLLABORATIVE,)
    return Recovery(
        situation=situation,
        ways=tuple(way.value for way in ways),
        steps=known.steps,
        attempts=0 if level is Level.KILL else known.attempts,
        timeout_s=_TIMEOUT_S,
        wait_s=known.wait_s,
        backoff=None if known.wait_s is None else _BACKOFF,
        fallback=_STAY,
    )
