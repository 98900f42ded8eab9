"""An agent, a mission or a tree of sessions has used up its budget, summed over all of its sessions.

Fires: `budget_warning` (low) when the total reaches `warn_at` of its limit; `budget_exceeded` (critical) when it is
    above the limit, and again with each further tenth of it. Resources: tokens (including those read from a cache),
    cost_usd, calls, file_ops. An agent's total restarts with each period. A tree of sessions has three more: agents
    (started in all), agents_at_once, depth (generations below the first session). `budget_reached` (high) when one of
    a tree's is used up: from then on, calls that start an agent are refused, until less is used or an operator lifts
    it; a tree that exceeds its tokens, cost_usd, calls or file_ops is frozen.
Quiet: always without a limit, and there is none by default; for a mission, sessions that name none.
Misses: usage that is not reported; up to a hundredth of the limit per running session, which it has not reported yet;
    usage before a mission or a tree was idle for longer than sessions are stored; over a broker, agents started before
    a decision arrives. An agent in the background runs until its session reports its end, or not at all if it has none.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeVar, get_args

from pydantic import Field

from haltline.detectors.cross_session.base import CrossSessionPattern, evidence, remembered
from haltline.detectors.cross_session.spawn_storm import MAX_SESSIONS, TreeState
from haltline.detectors.framework.base import settings, worst_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.usage_totals import UNKNOWN_TURNS, budget_finding
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.signals import REFUSED, Signal, SignalKind, SignalScope, root_of

Shared = Literal["tokens", "cost_usd", "calls", "file_ops"]
SHARED: tuple[Shared, ...] = get_args(Shared)

_HOUR_MS = 3_600_000

Limits = dict[Shared, Annotated[float, Field(gt=0), Stricter.LOWER]]
Count = Annotated[int, Field(ge=1, le=100_000), Stricter.LOWER]


@dataclass
class SharedBudgetState:
    """The usage in the current period, by resource."""

    period: int = 0
    """The number of the period since 1970; 0 without periods."""
    used: dict[str, float] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    """By resource, what was reported: 1 warning, 2 exceeded, more for each further tenth."""


Budgeted = TypeVar("Budgeted", bound=SharedBudgetState)


@settings
class SharedBudget(CrossSessionPattern[Budgeted]):
    """A total of several sessions above its limit. Sessions report usage in steps of at most a hundredth of it."""

    consumes: ClassVar[frozenset[SignalKind]] = frozenset({SignalKind.SPENT})
    whose: ClassVar[str] = ""
    """What the scope is called in a reason, if not by its name."""

    limits: Limits = Field(default_factory=dict)
    """Limits of the total of all sessions, by resource; those without a limit are not checked."""
    warn_at: Annotated[float, Field(gt=0, le=1), Stricter.LOWER] = 0.8
    """Share of a limit."""

    @property
    def is_limited(self) -> bool:
        """Return whether there is any limit."""
        return bool(self.limits)

    def period_of(self, time_ms: int) -> int:  # noqa: ARG002 - the argument is for those that have periods
        """The number of the period that contains this time."""
        return 0

    def observe(self, state: Budgeted, signal: Signal) -> Finding | None:
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

    def _look(self, state: Budgeted, signal: Signal, name: Shared, limit: float) -> Finding | None:
        return budget_finding(
            self,
            state.told,
            name,
            used=state.used.get(name, 0.0),
            limit=limit,
            warn_at=self.warn_at,
            evidence=lambda: evidence([], remembered(signal)),
            whose=f"{self.whose or self.scope} {root_of(signal.id)}: ",
            by=" by its sessions",
            unknown_turns=state.used.get(UNKNOWN_TURNS, 0.0),
        )


@settings
class AgentBudget(SharedBudget[SharedBudgetState]):
    """The total of an agent's sessions in a period."""

    id: ClassVar[str] = "agent_budget"
    scope: ClassVar[SignalScope] = SignalScope.AGENT

    period_h: Annotated[int, Field(ge=1, le=8784), Stricter.NEITHER] = 24
    """Hours of event time, counted from 1970: with 24, days in UTC. The total restarts with each period."""

    def period_of(self, time_ms: int) -> int:
        """The number of periods before this one."""
        return time_ms // (self.period_h * _HOUR_MS)


@settings
class MissionBudget(SharedBudget[SharedBudgetState]):
    """The total of a mission's sessions."""

    id: ClassVar[str] = "mission_budget"
    scope: ClassVar[SignalScope] = SignalScope.MISSION


@dataclass
class TreeBudgetState(SharedBudgetState, TreeState):
    """The usage of a tree, and its agents."""

    called: dict[str, int] = field(default_factory=dict)
    """The calls that start agents, by session."""
    started: dict[str, int] = field(default_factory=dict)
    """The sessions that were started, by the session above."""
    open_calls: dict[str, str] = field(default_factory=dict)
    """The calls that are not over yet, with their sessions."""
    running: dict[str, str] = field(default_factory=dict)
    """The sessions that have not ended, with those above."""
    reached: list[str] = field(default_factory=list)
    """The resources of which nothing is left."""
    eased: bool = False
    """By the last signal only the depth is left of them, which is reached for good, but for the deepest only."""


@settings
class TreeBudget(SharedBudget[TreeBudgetState]):
    """The total of a session and those below it, and their number."""

    id: ClassVar[str] = "tree_budget"
    scope: ClassVar[SignalScope] = SignalScope.TARGET
    whose: ClassVar[str] = "the tree of"
    consumes: ClassVar[frozenset[SignalKind]] = frozenset(
        {SignalKind.SPENT, SignalKind.STARTED, SignalKind.SPAWNED, SignalKind.RETURNED, SignalKind.ENDED}
    )

    agents: Count | None = None
    """Agents started in all."""
    agents_at_once: Count | None = None
    """Agents that run at one time."""
    depth: Count | None = None
    """Generations below the first session."""

    @property
    def is_limited(self) -> bool:
        """Return whether there is any limit."""
        return bool(self.limits or self.agents or self.agents_at_once or self.depth)

    def observe(self, state: TreeBudgetState, signal: Signal) -> Finding | None:
        """Add what has happened to the tree, and check what is left."""
        if not self.is_limited:
            return None
        found = None
        call = f"{signal.session_id} {signal.code}"
        match signal.kind:
            case SignalKind.SPENT:
                found = super().observe(state, signal)
            case SignalKind.SPAWNED:
                state.called[signal.session_id] = state.called.get(signal.session_id, 0) + 1
                state.open_calls[call] = signal.session_id
            case SignalKind.STARTED if signal.parent_session_id and signal.session_id not in state.parents:
                state.add(signal.session_id, signal.parent_session_id)
                state.started[signal.parent_session_id] = state.started.get(signal.parent_session_id, 0) + 1
                state.running[signal.session_id] = signal.parent_session_id
            case SignalKind.RETURNED:
                if state.open_calls.pop(call, None) is not None and signal.amount(REFUSED):
                    state.called[signal.session_id] = state.called.get(signal.session_id, 1) - 1  # it has started none
            case SignalKind.ENDED:
                state.running.pop(signal.session_id, None)
        for known in (state.called, state.started, state.open_calls, state.running):
            while len(known) > MAX_SESSIONS:
                del known[next(iter(known))]
        left, before = self._left(state), state.reached
        state.reached = [name for name, (amount, _) in left.items() if amount <= 0]
        state.eased = state.reached == ["depth"] and bool(before) and before != ["depth"]
        if state.eased or not set(state.reached).issubset(before):
            found = worst_of((found, self._reached(state, signal, left)))
        return None if found is None else found.model_copy(update={"session_id": root_of(signal.id)})

    def is_over(self, state: TreeBudgetState) -> bool:
        """Return whether something of each resource is left again, or of all but the depth."""
        return not state.reached or state.eased

    def _left(self, state: TreeBudgetState) -> dict[str, tuple[float, float]]:
        """Return what is left of each limit, and the limit."""
        counts: dict[str, tuple[float, float | None]] = {
            "agents": ((Counter(state.called) | Counter(state.started)).total(), self.agents),
            "agents_at_once": (
                (Counter(state.open_calls.values()) | Counter(state.running.values())).total(),
                self.agents_at_once,
            ),
            "depth": (max(state.depths.values(), default=0), self.depth),
            **{name: (state.used.get(name, 0.0), limit) for name, limit in self.limits.items()},
        }
        return {name: (limit - used, limit) for name, (used, limit) in counts.items() if limit is not None}

    def _reached(self, state: TreeBudgetState, signal: Signal, left: dict[str, tuple[float, float]]) -> Finding:
        least = dict(sorted(left.items(), key=lambda one: one[1][0] / one[1][1]))  # of a long reason the end is cut
        said = ", ".join(f"{max(0.0, amount):.6g} of {of:.6g} {name}" for name, (amount, of) in least.items())
        said = said.replace("agents_at_once", "agents at once")
        deep = self.depth if state.reached == ["depth"] else None
        return self.finding(
            "budget_reached",
            Severity.HIGH,
            f"{self.whose} {root_of(signal.id)} has {said} left",
            evidence([], remembered(signal)),
            values={"from_depth": deep or 0, **{name: amount for name, (amount, _) in left.items()}},
            thresholds={name: limit for name, (_, limit) in left.items()},
        )
