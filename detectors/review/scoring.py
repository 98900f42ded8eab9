"""Risk, rationality and the verdict of a proposed action: the published numbers, and our own where none are published.

Our own: the risk of an unknown action, the additions for privileges and for a dangerous pattern, the maximum risk of 1,
and rationality as the mean of three parts (the fourth, completeness, was never defined).
"""

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from typing import Final

from haltline.schemas.findings import Severity
from haltline.schemas.ordered import OrderedName


class Category(StrEnum):
    """The category of an action, for its risk."""

    DELETION = "file_deletion"
    """Destroys something that is in use: a file, a table, a resource."""
    COMMAND = "system_command"
    NETWORK = "network_request"
    MODIFICATION = "file_modification"
    CREATION = "file_creation"
    READ = "file_read"
    UNKNOWN = "unknown"


class Verdict(OrderedName):
    """The verdict on an action, from mild to hard."""

    ALLOW = "allow"
    WARN = "warn"
    MODIFY = "modify"
    """Not in this form: the model is to change it."""
    BLOCK = "block"


BASE_RISK: Final[Mapping[Category, float]] = {
    Category.DELETION: 0.8,
    Category.COMMAND: 0.7,
    Category.NETWORK: 0.6,
    Category.MODIFICATION: 0.4,
    Category.CREATION: 0.3,
    Category.READ: 0.1,
    Category.UNKNOWN: 0.3,
}
OUT_OF_SCOPE: Final = 0.3
PRIVILEGE: Final = 0.2
DANGEROUS: Final = 0.2
_REPETITION: Final = (0.0, 0.1, 0.2, 0.4)
"""By the number of similar actions that failed before; the last value also for more."""
_HIGH_RATIONALITY: Final = 0.8
_MEDIUM_RATIONALITY: Final = 0.5
_PLACES: Final = 9
"""Sums are rounded before comparison: 0.7 + 0.1 is a little below 0.8."""


class Progression(Enum):
    """The relation of an action to those before it, and how rational it is by that, 0 to 1."""

    BUILDS = 1.0
    NEW_PATH = 0.7
    REPEATS = 0.3
    CONTRADICTS = 0.0


def risk_score(
    category: Category,
    *,
    out_of_scope: bool = False,
    failed_before: int = 0,
    privileged: bool = False,
    dangerous: bool = False,
) -> float:
    """The risk of an action, 0 to 1; `failed_before` counts similar actions that failed."""
    risk = BASE_RISK[category] + _REPETITION[min(failed_before, len(_REPETITION) - 1)]
    risk += OUT_OF_SCOPE * out_of_scope + PRIVILEGE * privileged + DANGEROUS * dangerous
    return min(1.0, round(risk, _PLACES))


def rationality_score(*, aligned: bool | None, progression: Progression, better_alternative: bool) -> float:
    """The rationality of an action, 0 to 1; `aligned` is None without a goal, and then not counted."""
    parts = [progression.value, 0.5 if better_alternative else 1.0]
    if aligned is not None:
        parts.append(float(aligned))
    return round(sum(parts) / len(parts), _PLACES)


def rationality_level(score: float) -> Severity:
    """The rationality as a level: high, medium or low."""
    if score >= _HIGH_RATIONALITY:
        return Severity.HIGH
    return Severity.MEDIUM if score >= _MEDIUM_RATIONALITY else Severity.LOW


_LEVELS: Final = (Severity.HIGH, Severity.MEDIUM, Severity.LOW)
_MATRIX: Final[Mapping[Severity, tuple[Verdict, ...]]] = {
    Severity.LOW: (Verdict.ALLOW, Verdict.ALLOW, Verdict.WARN),
    Severity.MEDIUM: (Verdict.ALLOW, Verdict.WARN, Verdict.MODIFY),
    Severity.HIGH: (Verdict.WARN, Verdict.MODIFY, Verdict.BLOCK),
    Severity.CRITICAL: (Verdict.BLOCK, Verdict.BLOCK, Verdict.BLOCK),
}
"""By level of risk, then of rationality in the order of `_LEVELS`."""


def decide(
    risk: Severity, rationality: Severity, *, worst_side_effect: Severity | None, first_time: bool, dangerous: bool
) -> Verdict:
    """The verdict of the matrix, after the overriding rules in their published order."""
    base = _MATRIX[risk][_LEVELS.index(rationality)]
    if worst_side_effect is Severity.CRITICAL:
        return Verdict.BLOCK
    if first_time and base is Verdict.WARN:
        return Verdict.ALLOW
    if dangerous and base is Verdict.WARN:
        return Verdict.MODIFY
    return base


def aggregate(verdicts: Iterable[Verdict]) -> Verdict:
    """The hardest verdict."""
    return max(verdicts, default=Verdict.ALLOW)
