"""The rules applied to the calls of one session. Pure: state and time are arguments; all of the state is bounded.

The order: lists, arguments, evidence, loops, rates, budgets. The first refusal is reported. Only admitted calls count
for rates and budgets; attempts count for the loop rule. Only successful actions of this run are evidence.

A call's price is held when it begins, and spent when it has run. A call is refused if spent + held + its price is more
than the limit; exactly the limit may be spent. Sums are rounded to nine places before they are compared, as ten times
0.1 is not 1 in binary. An entry exactly as old as a window still counts, as in Agent Sentinel's loop guard.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from msgspec import field

from haltline.interventions.author_rules import constraints
from haltline.interventions.author_rules.objection import (
    BUDGET,
    BUDGET_WARNING,
    DENIED,
    LOOP,
    MISSING,
    NOT_ALLOWED,
    RATE,
    STALE,
    Objection,
)
from haltline.schemas.author_rules import Arguments, CallRules, LoopRule, RateLimit, several
from haltline.schemas.stored import Stored
from haltline.schemas.tool_names import names_of

_PLACES: Final = 9
_MAX_ACTIONS: Final = 1024
_MAX_KEPT: Final = 1024
_MAX_TIMES: Final = 65_536


class RuleState(Stored):
    """What the rules remember of one session."""

    spent: dict[str, float] = field(default_factory=dict)
    """US dollars by budget."""
    warned: dict[str, int] = field(default_factory=dict)
    """By budget with its limit: how many of the thresholds were reported."""
    admitted: dict[str, list[int]] = field(default_factory=dict)
    """Times of admitted calls by rate limit, epoch milliseconds."""
    attempts: dict[str, list[int]] = field(default_factory=dict)
    """Times by loop rule and call, the call that was made last at the end."""
    succeeded: dict[str, int] = field(default_factory=dict)
    """The time of each action's last success that is evidence."""
    open: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By id: the action of an admitted call that has not ended, and its price."""


class Asked(NamedTuple):
    """A call that is about to be made."""

    call_id: str
    action: str
    args: Mapping[str, Any]
    now_ms: int
    same: Callable[[Mapping[str, Any]], bytes]
    """Returns bytes that are equal for equal arguments."""
    cost_usd: float | None = None
    """None: the price that the rules have for it."""


class _Budget(NamedTuple):
    name: str
    limit_usd: float
    key: str


class _Rate(NamedTuple):
    key: str
    action: str
    limit: RateLimit


class _Loop(NamedTuple):
    rule: LoopRule
    key: str


class _Applying(NamedTuple):
    """The rules for one action."""

    listed: Objection | None
    arguments: Sequence[Arguments]
    evidence: Sequence[tuple[Sequence[str], float | None]]
    loops: Sequence[_Loop]
    rates: Sequence[_Rate]
    budgets: Sequence[_Budget]
    spends: Iterable[str]
    """The names of these budgets."""
    price_usd: float
    is_evidence: bool


class Rules:
    """The rules, prepared to be applied to the state of any session."""

    def __init__(self, *given: CallRules) -> None:
        """Prepare the rules of several files or entries: all of them apply, beside each other."""
        self._given = given
        self.is_strict = any(rules.strict_mode for rules in given)
        """Violations refuse a call; False: they are hints."""
        self._budgets = [
            (glob, _Budget(name, usd, f"{name} {usd:g}"))
            for rules in given
            for glob, name, usd in (
                ("*", "session", rules.session_budget),
                ("*", "run", rules.run_budget),
                *((glob, f"action {glob}", usd) for glob, usd in rules.action_budgets.items()),
            )
            if usd is not None
        ]
        self._rates = [
            (glob, _Rate(f"{glob} {one.max_count}/{one.window_seconds:g}", glob, one))
            for rules in given
            for glob, limits in rules.rate_limits.items()
            for one in several(limits)
        ]
        loops = [rule for rules in given for rule in rules.loop_rules]
        self._loops = [(rule.action, _Loop(rule, _key(repr(rule).encode()))) for rule in loops]
        most = _MAX_TIMES // max(1, sum(rule.threshold for rule in loops))
        self._max_calls = max(1, min(_MAX_KEPT, most)) * len(loops)
        self._warn_at = sorted({percent for rules in given for percent in rules.budget_warning_thresholds})
        self._applying: dict[str, _Applying] = {}

    def begin(self, state: RuleState, call: Asked) -> Sequence[Objection]:
        """Return the objections to a call. Without one that blocks it is admitted: `end` or `release` has to follow."""
        applying = self._of(call.action)
        usd = applying.price_usd if call.cost_usd is None else call.cost_usd
        strict, found = self.is_strict, list[Objection]()
        try:
            for objection in self._against(applying, state, call, usd):
                if not strict:
                    found.append(replace(objection, blocks=False))
                elif not found:
                    found.append(objection)
        except Exception:
            if not strict or not found:  # a known refusal stands, even if other rules fail
                raise
        if strict and found:
            return found
        for rate in applying.rates:
            times = state.admitted.setdefault(rate.key, [])
            times.append(call.now_ms)
            del times[: -max(1, rate.limit.max_count)]
        state.open[call.call_id] = call.action, usd
        if len(state.open) > _MAX_KEPT:
            oldest = next(iter(state.open))
            self._spend(state, *state.open.pop(oldest))
        return [*found, *(warning for one in applying.budgets if (warning := self._warning(state, one)) is not None)]

    def end(self, state: RuleState, call_id: str, action: str, now_ms: int, *, ok: bool, usd: float | None) -> float:
        """Record the end of a call that was made. Returns its cost, by default its price; failed calls cost, too."""
        opened = state.open.pop(call_id, None)
        if usd is None:
            usd = self._of(action).price_usd if opened is None else opened[1]
        self._spend(state, action, usd)
        if ok and self._of(action).is_evidence:
            state.succeeded.pop(action, None)
            state.succeeded[action] = now_ms
            if len(state.succeeded) > _MAX_KEPT:
                del state.succeeded[next(iter(state.succeeded))]
        return usd

    def release(self, state: RuleState, call_id: str) -> None:
        """Revert the counts of an admitted call that is not made."""
        opened = state.open.pop(call_id, None)
        for rate in () if opened is None else self._of(opened[0]).rates:
            if times := state.admitted.get(rate.key):
                times.pop()

    def spend(self, state: RuleState, usd: float) -> None:
        """Record spending outside of tool calls: a turn of the model."""
        self._add(state, {one.name for glob, one in self._budgets if glob == "*"}, usd)

    @staticmethod
    def begin_run(state: RuleState) -> None:
        """Start the next run: its budget is unspent, and evidence is cleared. Amounts held by running calls stay."""
        state.spent.pop("run", None)
        state.warned = {name: passed for name, passed in state.warned.items() if not name.startswith("run ")}
        state.succeeded.clear()

    def against_arguments(self, action: str, args: Mapping[str, Any]) -> Objection | None:
        """Return the violations in a call's arguments."""
        found = (constraints.against(action, one, args) for one in self._of(action).arguments)
        return next((replace(one, blocks=self.is_strict) for one in found if one), None)

    def _against(self, applying: _Applying, state: RuleState, call: Asked, usd: float) -> Iterator[Objection]:
        if applying.listed is not None:
            yield applying.listed
        looping = [found for one in applying.loops if (found := self._looping(state, one, call)) is not None]
        for constraint in applying.arguments:
            if (wrong := constraints.against(call.action, constraint, call.args)) is not None:
                yield wrong
        for required, max_age_s in applying.evidence:
            if (lacking := _lacking(state, call, required, max_age_s)) is not None:
                yield lacking
        yield from looping
        for rate in applying.rates:
            if (many := _too_many(state, rate, call.now_ms)) is not None:
                yield many
        for budget in applying.budgets:
            if (over := self._over(state, budget, usd)) is not None:
                yield over

    def _looping(self, state: RuleState, loop: _Loop, call: Asked) -> Objection | None:
        """Count an attempt, then return the objection if it is one too many; so refused attempts count too."""
        rule, without = loop.rule, loop.rule.arg_exclude
        args = {name: value for name, value in call.args.items() if name not in without} if without else call.args
        key = _key(f"{loop.key}{call.action}\x1f".encode(errors="replace") + call.same(args))
        times = state.attempts.pop(key, [])
        state.attempts[key] = times
        while len(state.attempts) > self._max_calls:
            del state.attempts[next(iter(state.attempts))]
        times.append(call.now_ms)
        del times[: -rule.threshold]
        count = sum(call.now_ms - at <= rule.window_seconds * 1000 for at in times)
        if count < rule.threshold:
            return None
        return Objection(
            LOOP,
            f"{call.action}: {count} equal calls within {rule.window_seconds:g}s",
            values={"count": count, "arguments": key},
            thresholds={"threshold": rule.threshold, "window_s": rule.window_seconds},
        )

    def _over(self, state: RuleState, budget: _Budget, usd: float) -> Objection | None:
        """Return why a call of this price must not be made now, if so."""
        used = state.spent.get(budget.name, 0.0)
        if state.open:
            held = [price for action, price in state.open.values() if budget in self._of(action).budgets]
            used = round(used + sum(held), _PLACES)
        if round(used + usd, _PLACES) <= budget.limit_usd:
            return None
        return Objection(
            BUDGET,
            f"{budget.name}: ${used:.6g} of ${budget.limit_usd:.6g} used or held, and the call costs ${usd:.6g}",
            values={"budget": budget.name, "used_usd": used, "cost_usd": usd},
            thresholds={"limit_usd": budget.limit_usd},
        )

    def _warning(self, state: RuleState, budget: _Budget) -> Objection | None:
        """Return a warning, once for each threshold passed."""
        spent, limit_usd = state.spent.get(budget.name, 0.0), budget.limit_usd
        if not spent or limit_usd <= 0:
            return None
        percent = round(spent / limit_usd * 100, _PLACES)
        passed = sum(percent >= at for at in self._warn_at)
        if passed <= state.warned.get(budget.key, 0):
            return None
        state.warned[budget.key] = passed
        return Objection(
            BUDGET_WARNING,
            f"{budget.name}: ${spent:.6g} of ${limit_usd:.6g} used, {percent:.0f}%",
            blocks=False,
            values={"budget": budget.name, "used_usd": spent},
            thresholds={"limit_usd": limit_usd, "warn_at_percent": self._warn_at[passed - 1]},
        )

    def _spend(self, state: RuleState, action: str, usd: float) -> None:
        self._add(state, self._of(action).spends, usd)

    @staticmethod
    def _add(state: RuleState, budgets: Iterable[str], usd: float) -> None:
        for name in budgets:
            state.spent[name] = round(state.spent.get(name, 0.0) + usd, _PLACES)

    def _of(self, action: str) -> _Applying:
        known = self._applying.get(action)
        if known is None:
            if len(self._applying) >= _MAX_ACTIONS:  # only cached rules are dropped, no counts
                self._applying.clear()
            known = self._applying[action] = self._work_out(action)
        return known

    def _work_out(self, action: str) -> _Applying:
        # Denials and counts apply with any server's prefix; permissions only to the whole name.
        given, names = self._given, {action, *names_of(action)}

        def matching(pairs: Iterable[tuple[str, Any]]) -> list[Any]:
            return [what for glob, what in pairs if any(fnmatchcase(name, glob) for name in names)]

        denied = matching((glob, glob) for rules in given for glob in rules.denied_actions)
        listed = [rules.allowed_actions for rules in given if rules.allowed_actions is not None]
        objection = Objection(DENIED, f"{action} is denied by {denied[0]}") if denied else None
        if objection is None and not all(any(fnmatchcase(action, glob) for glob in allowed) for allowed in listed):
            objection = Objection(NOT_ALLOWED, f"{action} is not on the list of allowed actions")
        budgets = matching(self._budgets)
        constrained = matching(pair for rules in given for pair in rules.argument_constraints.items())
        evidence = [one for rules in given for required in rules.evidence_requirements.values() for one in required]
        return _Applying(
            listed=objection,
            arguments=[one for values in constrained for one in several(values)],
            evidence=matching(
                (glob, (required, rules.evidence_max_age_seconds.get(glob)))
                for rules in given
                for glob, required in rules.evidence_requirements.items()
            ),
            loops=matching(self._loops),
            rates=matching(self._rates),
            budgets=budgets,
            spends={one.name for one in budgets},
            price_usd=max(matching(pair for rules in given for pair in rules.prices.items()), default=0.0),
            is_evidence=any(fnmatchcase(action, glob) for glob in evidence),
        )


def _key(of: bytes) -> str:
    return blake2b(of, digest_size=8).hexdigest()


def _lacking(state: RuleState, call: Asked, required: Sequence[str], max_age_s: float | None) -> Objection | None:
    """Return missing or outdated evidence; evidence of exactly the maximum age is valid."""
    missing, stale = [], []
    for glob in required:
        latest = max((at for name, at in state.succeeded.items() if fnmatchcase(name, glob)), default=None)
        if latest is None:
            missing.append(glob)
        elif max_age_s is not None and call.now_ms - latest > max_age_s * 1000:
            stale.append(glob)
    if missing:
        needed = tuple(missing)
        return Objection(MISSING, f"{call.action} wants {', '.join(missing)} first", required_prior_actions=needed)
    if stale:
        return Objection(
            STALE,
            f"{call.action} wants {', '.join(stale)} no longer ago than {max_age_s:g}s",
            stale_evidence=tuple(stale),
            thresholds={"max_age_s": max_age_s or 0},
        )
    return None


def _too_many(state: RuleState, rate: _Rate, now_ms: int) -> Objection | None:
    """Return why the limit is reached now, if so."""
    count, window_s, times = rate.limit.max_count, rate.limit.window_seconds, state.admitted.get(rate.key, [])
    if count and (len(times) < count or now_ms - times[0] > window_s * 1000):
        return None
    wait_ms = times[0] + window_s * 1000 - now_ms if times else window_s * 1000
    return Objection(
        RATE,
        f"{rate.action}: {count} calls in {window_s:g}s were made already",
        values={"count": len(times)},
        thresholds={"max_count": count, "window_s": window_s},
        retry_after_s=max(1, math.floor(wait_ms / 1000) + 1),  # at the window's very end it still counts
    )
