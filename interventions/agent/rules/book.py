"""All rules of one session combined. Thread safe; the clock is an argument; no I/O.

The order: stored results, lists, arguments, evidence, loops, rates, budgets. The first refusal is reported. Only
admitted calls count for rates and budgets; attempts count for the loop rule.
"""

import copy
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from haltline.interventions.agent.rules import constraints
from haltline.interventions.agent.rules.budgets import Budget
from haltline.interventions.agent.rules.evidence import Evidence
from haltline.interventions.agent.rules.known_effects import names_of
from haltline.interventions.agent.rules.objection import DENIED, NOT_ALLOWED, Objection
from haltline.interventions.agent.rules.replays import Kept, Replays
from haltline.interventions.agent.rules.settings import Arguments, ClientRules
from haltline.interventions.agent.rules.windows import Loop, Rate

_MAX_ACTIONS = 1024
NO_RULES = ClientRules()


@dataclass(slots=True)
class _Applying:
    """The rules for one action."""

    listed: Objection | None
    arguments: Sequence[Arguments]
    evidence: Sequence[tuple[Sequence[str], float | None]]
    loops: Sequence[Loop]
    rates: Sequence[Rate]
    budgets: Sequence[Budget]
    price_usd: float


@dataclass(slots=True)
class RuleTicket:
    """A call known to the rules; to be passed to `end` or `release`."""

    action: str
    cost_usd: float = 0.0
    key: str | None = None
    replayed: Kept | None = None
    refused: Objection | None = None
    objections: list[Objection] = field(default_factory=list)
    """Hints for the agent before the call."""
    held: Sequence[Budget] = ()
    open: bool = True


class RuleBook:
    """The state of one session under its rules."""

    def __init__(self, rules: ClientRules | None = None) -> None:
        self.rules = rules = rules or NO_RULES
        warn_at = rules.budget_warning_thresholds
        self._session = None if rules.session_budget is None else Budget("session", rules.session_budget, warn_at)
        self._run = None if rules.run_budget is None else Budget("run", rules.run_budget, warn_at)
        self._action_budgets = [
            (glob, Budget(f"action {glob}", usd, warn_at)) for glob, usd in rules.action_budgets.items()
        ]
        self._rates = [(glob, Rate(glob, limit)) for glob, limits in rules.rate_limits.items() for limit in limits]
        self._loops = [(rule.action, Loop(rule)) for rule in rules.loop_rules]
        self._evidence = Evidence([g for evidence in rules.evidence_requirements.values() for g in evidence])
        self._replays = Replays(rules.idempotency_ttl_seconds)
        self._lists = [*rules.also_allowed, *([] if rules.allowed_actions is None else [rules.allowed_actions])]
        self._applying: dict[str, _Applying] = {}
        self.empty = rules == NO_RULES
        """There are no rules."""
        self.is_strict = not self.empty and rules.strict_mode
        """Violations refuse a call."""
        self._lock = threading.Lock()

    @property
    def spent_usd(self) -> float:
        """The session's spending, as counted for a budget."""
        return 0.0 if self._session is None else self._session.spent_usd

    def begin(
        self,
        action: str,
        args: Mapping[str, Any],
        now_ms: int,
        *,
        cost_usd: float | None = None,
        key: str | None = None,
    ) -> RuleTicket | None:
        """Apply the rules to a call; None: no rule applies to it."""
        if self.empty and key is None:
            return None
        with self._lock:
            applying = self._of(action)
            ticket = RuleTicket(action, applying.price_usd if cost_usd is None else cost_usd, key)
            if key is not None:
                earlier = self._replays.begin(action, key, now_ms)
                if isinstance(earlier, Kept):
                    ticket.replayed, ticket.open = earlier, False
                    return ticket
                if earlier is not None:
                    ticket.refused, ticket.open = earlier, False
                    return ticket
            self._check(applying, ticket, args, now_ms)
            if ticket.refused is not None:
                self._close(ticket, None)
                return ticket
            for rate in applying.rates:
                rate.note(now_ms)
            ticket.held = applying.budgets
            for budget in ticket.held:
                budget.hold(ticket.cost_usd)
                warning = budget.warning()
                if warning is not None:
                    ticket.objections.append(warning)
            return ticket

    def end(
        self,
        ticket: RuleTicket,
        now_ms: int,
        *,
        ok: bool,
        cost_usd: float | None = None,
        value: Any = None,
        has_value: bool = False,
    ) -> float:
        """Record the end of a call. Returns its cost, by default its price. Failed calls are charged, too."""
        # The first caller may change the value that it received.
        kept = Kept(copied(value), has_value, now_ms) if ok and ticket.key is not None else None
        with self._lock:
            cost = ticket.cost_usd if cost_usd is None else cost_usd
            if ticket.open:
                for budget in ticket.held:
                    budget.spend(cost)
                if ok:
                    self._evidence.note(ticket.action, now_ms)
                self._close(ticket, kept)
            return cost

    def release(self, ticket: RuleTicket | None) -> None:
        """Revert the counts of a call that was refused elsewhere."""
        with self._lock:
            if ticket is not None and ticket.open:
                self._close(ticket, None)

    def spend(self, usd: float) -> None:
        """Record spending outside of tool calls: a turn of the model."""
        with self._lock:
            for budget in (self._session, self._run):
                if budget is not None:
                    budget.spend(usd)

    def after_fork(self) -> None:
        """In a forked child: keep the counts, and replace the lock, which a missing thread may hold."""
        self._lock = threading.Lock()

    def forget_results(self) -> None:
        """Clear stored results after a rollback, so that the calls can be made again."""
        with self._lock:
            self._replays.forget()

    def against_changed(self, action: str, args: Mapping[str, Any]) -> Objection | None:
        """Return the violations in arguments that a decision has set instead of the admitted ones."""
        if self.empty:
            return None
        with self._lock:
            arguments = self._of(action).arguments
        wrong = next(
            (found for one in arguments if (found := constraints.against(action, one, args)) is not None), None
        )
        return wrong if wrong is None or self.rules.strict_mode else replace(wrong, blocks=False)

    def begin_run(self) -> None:
        """Start the next run: its budget is unspent, and evidence is cleared."""
        with self._lock:
            if self._run is not None:
                self._run.reset()
            self._evidence.reset()

    # With the lock held.

    def _check(self, applying: _Applying, ticket: RuleTicket, args: Mapping[str, Any], now_ms: int) -> None:
        """Collect refusals and hints for the call."""
        try:
            for objection in self._against(applying, ticket, args, now_ms):
                if not self.rules.strict_mode:
                    ticket.objections.append(replace(objection, blocks=False))
                elif ticket.refused is None:
                    ticket.refused = objection
        except Exception:
            if ticket.refused is None:  # a known refusal stands, even if other rules fail
                self._close(ticket, None)
                raise

    def _against(
        self, applying: _Applying, ticket: RuleTicket, args: Mapping[str, Any], now_ms: int
    ) -> Iterator[Objection]:
        action = ticket.action
        if applying.listed is not None:
            yield applying.listed
        looping = [found for loop in applying.loops if (found := loop.against(action, args, now_ms)) is not None]
        for constraint in applying.arguments:
            if (wrong := constraints.against(action, constraint, args)) is not None:
                yield wrong
        for required, max_age_s in applying.evidence:
            if (lacking := self._evidence.against(action, required, max_age_s, now_ms)) is not None:
                yield lacking
        yield from looping
        for rate in applying.rates:
            if (many := rate.against(now_ms)) is not None:
                yield many
        for budget in applying.budgets:
            if (over := budget.against(ticket.cost_usd)) is not None:
                yield over

    def _close(self, ticket: RuleTicket, kept: Kept | None) -> None:
        ticket.open = False
        for budget in ticket.held:
            budget.release(ticket.cost_usd)
        if ticket.key is not None:
            self._replays.end(ticket.action, ticket.key, kept)

    def _of(self, action: str) -> _Applying:
        known = self._applying.get(action)
        if known is None:
            if len(self._applying) >= _MAX_ACTIONS:  # only cached rules are dropped, no counts
                self._applying.clear()
            known = self._applying[action] = self._work_out(action)
        return known

    def _work_out(self, action: str) -> _Applying:
        # Denials and counts apply with any server's prefix; permissions only to the whole name.
        rules, names = self.rules, {action, *names_of(action)}

        def matching(pairs: Any) -> list[Any]:
            return [what for glob, what in pairs if any(fnmatchcase(name, glob) for name in names)]

        ages = rules.evidence_max_age_seconds
        return _Applying(
            listed=self._listed(action, names),
            arguments=[one for several in matching(rules.argument_constraints.items()) for one in several],
            evidence=matching((g, (max_age, ages.get(g))) for g, max_age in rules.evidence_requirements.items()),
            loops=matching(self._loops),
            rates=matching(self._rates),
            budgets=[b for b in (self._session, self._run) if b is not None] + matching(self._action_budgets),
            price_usd=max(matching(rules.prices.items()), default=0.0),
        )

    def _listed(self, action: str, names: Collection[str]) -> Objection | None:
        denied = next((g for g in self.rules.denied_actions if any(fnmatchcase(name, g) for name in names)), None)
        if denied is not None:
            return Objection(DENIED, f"{action} is denied by {denied}")
        if all(any(fnmatchcase(action, glob) for glob in allowed) for allowed in self._lists):
            return None
        return Objection(NOT_ALLOWED, f"{action} is not on the list of allowed actions")


def copied(value: Any) -> Any:
    """Return a copy of the value, if its type supports it; else the value itself."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a connection, a lock, a faulty __deepcopy__
        return value
