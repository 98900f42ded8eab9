"""An agent or a mission has used up its budget, summed over all of its sessions.

Fires: `budget_warning` (low) when the total reaches `warn_at` of its limit; `budget_exceeded` (critical) when it is
    above the limit, and again with each further tenth of it. Resources: tokens (including those read from a cache),
    cost_usd, calls, file_ops. An agent's total restarts with each period.
Quiet: always without a limit, and there is none by default; for a mission, sessions that name none.
Misses: usage that is not reported; up to a hundredth of the limit per running session, which it has not reported yet;
    usage before a mission was idle for longer than sessions are stored.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from haltline.detectors.cross_session.base import CrossSessionPattern, evidence, remembered
from haltline.detectors.framework.base import settings, worst_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.usage_totals import UNKNOWN_TURNS, budget_finding
from haltline.schemas.findings import Finding
from haltline.schemas.signals import Signal, SignalKind, SignalScope

Shared = Literal["tokens", "cost_usd", "calls", "file_ops"]
SHARED: tuple[Shared, ...] = get_args(Shared)

_HOUR_MS = 3_600_000

Limits = dict[Shared, Annotated[float, Field(gt=0), Stricter.LOWER]]


@dataclass
class SharedBudgetState:
    """The usage in the current period, by resource."""

    period: int = 0
    """The number of the period since 1970; 0 without periods."""
    used: dict[str, float] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    """By resource, what was reported: 1 warning, 2 exceeded, more for each further tenth."""


@settings
class SharedBudget(CrossSessionPattern[SharedBudgetState]):
    """A total of several sessions above its limit. Sessions report usage in steps of at most a hundredth of it."""

    consumes: ClassVar[frozenset[SignalKind]] = frozenset({SignalKind.SPENT})

    limits: Limits = Field(default_factory=dict)
    """Limits of the total of all sessions, by resource; those without a limit are not checked."""
    warn_at: Annotated[float, Field(gt=0, le=1), Stricter.LOWER] = 0.8
    """Share of a limit."""

    def period_of(self, time_ms: int) -> int:  # noqa: ARG002 - the argument is for those that have periods
        """The number of the period that contains this time."""
        return 0

    def observe(self, state: SharedBudgetState, signal: Signal) -> Finding | None:
        """Add the reported usage, and check the totals that have a limit."""
        period = self.period_of(signal.time)
        if period < state.period:
            return None  # of an earlier period
        if period > state.period:
            state.period, state.used, state.told = period, {}, {}
        if unknown := signal.amount(UNKNOWN_TURNS):
            state.used[UNKNOWN_TURNS] = state.used.get(UNKNOWN_TURNS, 0.0) + unknown
        found = []
        for name in SHARED:
            amount = signal.amount(name)
            if amount:
                state.used[name] = state.used.get(name, 0.0) + amount
            if name in self.limits:
                found.append(self._look(state, signal, name, self.limits[name]))
        return worst_of(found)

    def _look(self, state: SharedBudgetState, signal: Signal, name: Shared, limit: float) -> Finding | None:
        return budget_finding(
            self,
            state.told,
            name,
            used=state.used.get(name, 0.0),
            limit=limit,
            warn_at=self.warn_at,
            evidence=lambda: evidence([], remembered(signal)),
            whose=f"{self.scope} {signal.id}: ",
            by=" by its sessions",
            unknown_turns=state.used.get(UNKNOWN_TURNS, 0.0),
        )


@settings
class AgentBudget(SharedBudget):
    """The total of an agent's sessions in a period."""

    id: ClassVar[str] = "agent_budget"
    scope: ClassVar[SignalScope] = SignalScope.AGENT

    period_h: Annotated[int, Field(ge=1, le=8784), Stricter.NEITHER] = 24
    """Hours of event time, counted from 1970: with 24, days in UTC. The total restarts with each period."""

    def period_of(self, time_ms: int) -> int:
        """The number of periods before this one."""
        return time_ms // (self.period_h * _HOUR_MS)


@settings
class MissionBudget(SharedBudget):
    """The total of a mission's sessions."""

    id: ClassVar[str] = "mission_budget"
    scope: ClassVar[SignalScope] = SignalScope.MISSION
