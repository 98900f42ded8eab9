"""Usage compared with a limit: for the budget of a session, and for budgets that sessions share."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeVar

from haltline.detectors.framework.base import Pattern
from haltline.schemas.events import Usage
from haltline.schemas.findings import Evidence, Finding, Severity

UNKNOWN_TURNS: Final = "turns_usage_unknown"
"""Number of model turns missing from a sum, as their usage is unknown."""

_Resource = TypeVar("_Resource", bound=str)
Spent = Literal["tokens", "cost_usd", "file_ops"]

_OF_TURNS: Final[frozenset[str]] = frozenset({"tokens", "cost_usd"})
_WARNED, _EXCEEDED = 1, 2
_STEPS = 10
"""An exceeded budget is reported again with each further tenth of the limit."""
_MAX_STAGE = 1_000_000


def spent_of(usage: Usage) -> Iterator[tuple[Spent, float]]:
    """The usage of a step by resource, without those that are zero."""
    if usage.tokens:
        yield "tokens", usage.tokens
    if usage.cost_usd:
        yield "cost_usd", usage.cost_usd
    if usage.file_ops:
        yield "file_ops", usage.file_ops


def stage_of(used: float, limit: float, warn_at: float) -> int:
    """0 within the limit, 1 from the warning on, 2 exceeded, and one more for each further tenth of the limit."""
    if used > limit:
        return _EXCEEDED + min(_MAX_STAGE, int((used / limit - 1) * _STEPS + 1e-9))
    return _WARNED if used >= warn_at * limit else 0


def budget_finding(
    pattern: Pattern[Any],
    told: dict[_Resource, int],
    resource: _Resource,
    *,
    used: float,
    limit: float,
    warn_at: float,
    evidence: Callable[[], tuple[Evidence, ...]],
    whose: str = "",
    by: str = "",
    unknown_turns: float = 0,
) -> Finding | None:
    """Build the finding of a new stage, None if there is none; `whose` and `by` are inserted into the reason.

    `told` has the last reported stage of each resource, and is changed in place; `evidence` is only called for a
    finding.
    """
    stage = stage_of(used, limit, warn_at)
    if stage <= told.get(resource, 0):
        return None
    told[resource] = stage
    exceeded = stage >= _EXCEEDED
    lacks = {UNKNOWN_TURNS: unknown_turns} if unknown_turns and resource in _OF_TURNS else {}
    unknown = f"; usage unknown of {unknown_turns:.0f} model turns" if lacks else ""
    return pattern.finding(
        "budget_exceeded" if exceeded else "budget_warning",
        Severity.CRITICAL if exceeded else Severity.LOW,
        f"{whose}{used:.6g} of {limit:.6g} {resource} used{by}, {used / limit:.0%}{unknown}",
        evidence(),
        values={"resource": resource, "used": used, "share": round(used / limit, 3), **lacks},
        thresholds={"limit": limit, "warn_at": warn_at},
    )
