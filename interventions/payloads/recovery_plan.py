"""Recovery plans after an intervention, by its cause: for the agent's side and for people. Pure.

The kinds of failure, the ways of recovery for each with their number of attempts, and the three situations with a
guided plan are the published ones; the steps are ours. One published default differs: a recovery that waits for a
person without an answer would have continued. Here it stays paused.

The ways: `automatic` (retry with backoff), `guided` (follow the steps), `checkpoint` (restore one), `collaborative`
(ask a person), `self_healing` (correct the error).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from haltline.schemas import expressions as re
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Finding
from haltline.schemas.payloads import Recovery


class _Plan(NamedTuple):
    ways: tuple[str, ...]
    attempts: int
    steps: tuple[str, ...]
    wait_s: int | None = None
    sign: str = ""
    """A regular expression for the error messages of such a failure."""


_BACKOFF: Final = 2.0
_TIMEOUT_S: Final = 300
_STAY: Final = "Stay paused until a person has reviewed it."

_FAILURES: Final[Mapping[str, _Plan]] = {
    "rate_limit_exceeded": _Plan(
        ("automatic", "guided"),
        3,
        ("Wait as long as the response says.", "Make fewer calls, each with more work."),
        wait_s=30,
        sign=r"rate.?limit|too many requests|\b429\b|quota",
    ),
    "import_error": _Plan(
        ("self_healing", "guided"),
        2,
        ("List the installed packages.", "Use an installed one, or ask for the missing one."),
        sign=r"no module named|importerror|cannot import|modulenotfound",
    ),
    "syntax_error": _Plan(
        ("self_healing", "guided"),
        2,
        (
            "Read the line that the message names, and the one before it.",
            "Correct it there.",
            "Check it before you run it.",
        ),
        sign=r"syntax ?error|indentationerror|unexpected (?:token|indent|eof)",
    ),
    "file_not_found": _Plan(
        ("automatic", "guided"),
        3,
        (
            "List the folder where it should be.",
            "Look for another spelling of the name.",
            "If it is not there, report that.",
        ),
        sign=r"no such file|not[ _]found|does(?: not|n't) exist|cannot find|\b404\b",
    ),
    "permission_denied": _Plan(
        ("collaborative",),
        1,
        ("Say what you need to do and which permissions it takes.", "Wait for a person to grant them."),
        sign=r"permission|denied|forbidden|unauthori[sz]ed|\b40[13]\b",
    ),
    "connection_timeout": _Plan(
        ("automatic", "collaborative"),
        3,
        ("Wait, then try once more.", "Check whether the host is reachable at all.", "If not, report it."),
        wait_s=2,
        sign=r"timed? ?out|connection|unreachable|could not resolve",
    ),
}
"""In the order in which their signs are searched: a missing module is not a missing file."""

_SITUATIONS: Final[Mapping[str, _Plan]] = {
    "stuck_in_loop": _Plan(
        ("guided", "checkpoint"),
        2,
        (
            "Say what you were trying to achieve, and what happened each time.",
            "Look at the current state without changing it.",
            "Choose an approach that differs in more than its arguments, or report that there is none.",
        ),
    ),
    "lost_context": _Plan(
        ("guided", "collaborative"),
        2,
        (
            "Read the task again.",
            "List what is done and what is left.",
            "Continue with the next step of the task, and leave out what is not part of it.",
        ),
    ),
    "resource_exhaustion": _Plan(
        ("checkpoint", "automatic"),
        2,
        ("Stop what is still running.", "Leave out what is not needed.", "Continue with a smaller piece."),
    ),
}
_SITUATION_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("goal_drift", "scope_creep", "hallucination"), "lost_context"),
    **dict.fromkeys(("resource_growth", "budget", "spend_velocity"), "resource_exhaustion"),
}
"""By rule; all others are stuck in a loop."""


def recovery(level: Level, finding: Finding, error: str | None) -> Recovery:
    """Return the recovery plan. After a kill, a person always starts it."""
    situation = _SITUATION_OF.get(finding.detector)
    if situation is None:
        errors = f"{finding.values.get('repeated_error', '')} {finding.values.get('errors', '')} {error or ''}"[:4096]
        signs = ((name, plan.sign) for name, plan in _FAILURES.items())
        situation = next((name for name, sign in signs if re.search(sign, errors, re.IGNORECASE)), "stuck_in_loop")
    known = _FAILURES.get(situation) or _SITUATIONS[situation]
    ways = known.ways
    if level is Level.ROLLBACK:
        ways = ("checkpoint", *(way for way in ways if way != "checkpoint"))
    elif level in (Level.PAUSE, Level.KILL):
        ways = ("collaborative",)
    return Recovery(
        situation=situation,
        ways=ways,
        steps=known.steps,
        attempts=0 if level is Level.KILL else known.attempts,
        timeout_s=_TIMEOUT_S,
        wait_s=known.wait_s,
        backoff=None if known.wait_s is None else _BACKOFF,
        fallback=_STAY,
    )
