"""The session has used up its budget.

Fires: `budget_warning` (low) when a total reaches `warn_at` of its limit; `budget_exceeded` (critical) when it is above
    the limit, and again with each further tenth of it. The lower of the limits in the settings and those that the
    session declared applies. Resources: tokens (including those read from a cache), cost_usd, calls, duration_s (from
    the first event to the latest), file_ops.
Quiet: always without a limit, and there is none by default.
Misses: usage that is not reported (findings on tokens and cost_usd give the number of model turns without usage); the
    time after the last event; totals over several sessions of an agent; a limit declared before an operator's reset.
"""

from typing import Annotated, ClassVar, Literal, get_args

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings, worst_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.usage_totals import budget_finding, spent_of
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding
from haltline.schemas.stored import Stored

# A module constant, as it is read at every event: looking up an enum member is ten times as slow.
_SESSION_STARTED = Kind.SESSION_STARTED

Resource = Literal["tokens", "cost_usd", "calls", "duration_s", "file_ops"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)

_LEAST = 1e-6
"""A declared limit below this is ignored: nothing could be done within it."""


class BudgetState(Stored):
    """The usage so far, and the limits that the session declared."""

    used: dict[Resource, float] = field(default_factory=dict)
    limits: dict[Resource, float] = field(default_factory=dict)
    told: dict[Resource, int] = field(default_factory=dict)
    """By resource, what was reported: 1 warning, 2 exceeded, more for each further tenth."""
    unknown_turns: int = 0
    """Model turns whose usage is unknown."""
    first_ms: int = 0
    """Event time of the first event, epoch milliseconds."""


@settings
class Budget(Detector[BudgetState]):
    """A total above its limit."""

    id: ClassVar[str] = "budget"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN})
    sees: ClassVar[Trait] = Trait.ATTEMPT | Trait.USAGE | Trait.START | Trait.TURN

    limits: dict[Resource, Annotated[float, Field(gt=0), Stricter.LOWER]] = Field(default_factory=dict)
    """Limits of a session's total usage."""
    warn_at: Annotated[float, Field(gt=0, le=1), Stricter.LOWER] = 0.8
    """Share of a limit."""

    def observe(self, state: BudgetState, act: Observation) -> Finding | None:
        """Add the usage, and check the totals that have a limit."""
        if not state.first_ms:
            state.first_ms = act.time_ms
        if act.kind is _SESSION_STARTED and act.event.task is not None:
            self._declare(state, act.event.task.limits)
        if not (state.limits or self.limits):
            return None
        limits = self._limits(state)
        used = state.used
        used["duration_s"] = max(used.get("duration_s", 0.0), (act.time_ms - state.first_ms) / 1000)
        if act.is_attempt and not act.refused:
            used["calls"] = used.get("calls", 0.0) + 1
        if act.usage is not None:
            for name, amount in spent_of(act.usage):
                used[name] = used.get(name, 0.0) + amount
        state.unknown_turns += act.event.is_usage_unknown
        return worst_of(
            budget_finding(
                self,
                state.told,
                resource,
                used=used.get(resource, 0),
                limit=limit,
                warn_at=self.warn_at,
                evidence=lambda: (act.evidence,),
                unknown_turns=state.unknown_turns,
            )
            for resource, limit in limits.items()
        )

    def near(self, state: BudgetState) -> float:
        """The largest used share of all limits."""
        limits = self._limits(state)
        return max((min(1.0, state.used.get(name, 0) / limit) for name, limit in limits.items()), default=0.0)

    def _declare(self, state: BudgetState, declared: dict[str, float]) -> None:
        limits: dict[str, float] = dict(declared)
        if "duration_ms" in limits:
            limits["duration_s"] = min(limits["duration_ms"] / 1000, limits.get("duration_s", float("inf")))
        for name in RESOURCES:
            if limits.get(name, 0) >= _LEAST:
                state.limits[name] = min(limits[name], state.limits.get(name, limits[name]))

    def _limits(self, state: BudgetState) -> dict[Resource, float]:
        if not state.limits:
            return self.limits
        both = (*self.limits, *(name for name in state.limits if name not in self.limits))
        return {name: min(limits[name] for limits in (self.limits, state.limits) if name in limits) for name in both}
