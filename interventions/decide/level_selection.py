"""The choice of a finding among several, and of its level, including escalation. Pure."""

from collections.abc import Mapping, Sequence

from haltline.interventions.levels import hold
from haltline.interventions.levels.default_levels import NO_STOP_BY_WARNINGS, STANDS_AGAIN, default_level
from haltline.interventions.levels.plugins import NO_EXTENSIONS, Extensions
from haltline.interventions.levels.strategies import (
    IMPACT,
    ByRule,
    Case,
    Chosen,
    PatternSpecific,
    Progressive,
    Scored,
    Strategy,
    harder,
)
from haltline.interventions.state.context import Context
from haltline.interventions.state.intervention_history import HELPED_ACTIONS, Entry, History
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.intervening import DEFAULT
from haltline.schemas.policy import Policy, Rule

_HINTS = (Level.NUDGE, Level.REINFORCE)


def _rank(chosen: Chosen) -> tuple[Level, bool, Level, Severity, bool]:
    # Of two at the same level, the one with a target is more useful to the operator.
    return chosen.level, chosen.holds, chosen.meant, chosen.finding.severity, chosen.finding.target is not None


class Chooser:
    """Chooses under one policy."""

    def __init__(self, policy: Policy, extensions: Extensions = NO_EXTENSIONS) -> None:
        """Load the policy's strategies. Raises ValueError for an unknown or invalid one."""
        self._policy = policy
        self._settings = settings = policy.interventions or DEFAULT
        self._cooldown_ms = policy.cooldown_s * 1000
        self._by_rule = ByRule()
        known: dict[str, Strategy] = {
            "by_rule": self._by_rule,
            "scored": Scored(settings.escalate_after),
            "progressive": Progressive(settings.effectiveness, settings.escalation_delay_s),
            "pattern_specific": PatternSpecific(settings.patterns),
        }
        self._strategy = extensions.strategy(settings.strategy, known, "interventions.strategy")
        self._own = {
            rule: extensions.strategy(name, known, f"interventions.strategies.{rule}")
            for rule, name in settings.strategies.items()
        }

    def choose(
        self,
        standing: SessionControl,
        event: ActionEvent,
        findings: Sequence[Finding],
        rules: Mapping[str, Rule],
        context: Context,
    ) -> tuple[Chosen | None, Chosen | None]:
        """Return the strictest choice of the findings, and the one that rules in shadow mode would have made.

        The first is of rules that are not in shadow mode, whatever the others find. The second is None if the first
        does more than let the session continue. Judges earlier interventions.
        """
        if not findings:
            return None, None
        history = standing.history or History()
        impact = IMPACT[context.effect]
        chosen = [
            self._selected(history, event, f, rules[f.detector], impact=impact, context=context) for f in findings
        ]
        for finding in findings:
            history.note_issue(finding.detector, event.time)
        weighed = hold.weigh(standing, event, chosen, context.deed, self._policy.operated.hold)
        effective = max((c for c in weighed if c.mode is not Mode.SHADOW), key=_rank, default=None)
        hardest = max(weighed, key=_rank, default=None)
        return effective, hardest if hardest is not None and hardest.mode is Mode.SHADOW else None

    def note(self, history: History, event: ActionEvent, chosen: Chosen, actions: int) -> None:
        """Store a published decision, to judge later whether it helped."""
        finding, meant = chosen.finding, chosen.meant
        if meant is Level.ALLOW:
            return  # a flag for people: nothing to judge
        last = history.last(finding.detector)
        if meant >= Level.PAUSE and last is not None and Level(last.level) is meant and last.helped is None:
            return  # a refusal repeated for each call
        intervenes = chosen.level > Level.ALLOW
        history.note(Entry(finding.detector, meant.value, finding.severity.value, event.time, actions, said=intervenes))

    def hear(self, history: History, chosen: Chosen) -> None:
        """Count a hint for the agent."""
        if chosen.level in _HINTS:
            history.hints += 1
            chosen.last_hint = history.hints == self._settings.max_interventions

    def has_hints_left(self, history: History, chosen: Chosen) -> bool:
        """Return False if the session has reached its maximum of hints."""
        return chosen.level not in _HINTS or history.hints < self._settings.max_interventions

    def _selected(
        self, history: History, event: ActionEvent, finding: Finding, rule: Rule, *, impact: float, context: Context
    ) -> Chosen:
        settings, name, time_ms = self._settings, finding.detector, event.time
        by_rule = rule.levels.get(finding.severity) or default_level(name, finding.severity)
        chosen = Chosen(finding, rule.mode, by_rule)
        judged = history.judge(name, finding.severity, time_ms, context.actions, self._cooldown_ms)
        if judged is not None and judged.helped is not None and judged.said:
            context.judged(name, judged.level, judged.helped)
        since_ms = int(time_ms - settings.history_s * 1000)
        recent = history.recent(name, since_ms)
        last = history.last(name)
        last = last if last is not None and last.time_ms >= since_ms else None
        helped = [entry.helped for entry in recent if entry.helped is not None]
        chosen.case = case = Case(
            finding=finding,
            by_rule=by_rule,
            impact=impact,
            escalation=sum(value < settings.effectiveness for value in helped),
            issues=history.recent_issues(name, since_ms),
            last=None if last is None else Level(last.level),
            since_s=0.0 if last is None else (time_ms - last.time_ms) / 1000,
            effectiveness=round(sum(helped) / len(helped), 3) if helped else None,
        )
        self._by_strategy(chosen, case, context)
        self._after_attempts(chosen, history)
        self._after_warnings(chosen, history)
        if finding.evidence[-1].event_id == event.event_id:  # this event shows it
            self._stands_again(chosen, history, context.actions)
        return chosen

    def _by_strategy(self, chosen: Chosen, case: Case, context: Context) -> None:
        name = case.finding.detector
        strategy = self._own.get(name, self._strategy)
        if strategy is self._by_rule:
            return
        chosen.strategy = chosen_strategy = self._settings.strategies.get(name, self._settings.strategy)
        try:
            level = strategy.choose(case)
        except Exception as error:  # an error in another package: the rule's own level applies
            context.failed(f"strategy {chosen_strategy}", error)
            chosen.why.append(f"{chosen_strategy} failed: the rule's {case.by_rule.value}")
            return
        chosen.why.append(f"{chosen_strategy}: {level.value}")
        if name not in self._own and case.finding.severity is Severity.CRITICAL and level < case.by_rule:
            # Only an explicit setting for the rule may relax it where each step loses data or money.
            level = case.by_rule
            chosen.why.append(f"critical: the rule's {level.value}")
        chosen.meant = level

    def _after_attempts(self, chosen: Chosen, history: History) -> None:
        """Replace a level that was tried often enough without effect by the next one."""
        most = self._settings.max_attempts.get(chosen.meant)
        if most is None:
            return
        meant = chosen.meant.value
        tried = history.streak(chosen.finding.detector, self._settings.effectiveness)
        chosen.attempts = sum(entry.level == meant for entry in tried)
        if chosen.attempts >= most:
            chosen.meant = harder(chosen.meant)
            chosen.why.append(f"{meant} did not help {chosen.attempts} times: {chosen.meant.value}")

    def _after_warnings(self, chosen: Chosen, history: History) -> None:
        """Escalate warnings without effect, so that they are not repeated forever."""
        most = self._settings.after_warnings
        if not most or chosen.meant >= Level.PAUSE or chosen.meant is Level.ALLOW:
            return
        if chosen.finding.detector in NO_STOP_BY_WARNINGS:
            return
        warnings = sum(1 for _ in history.streak(chosen.finding.detector, self._settings.effectiveness))
        if warnings >= most:
            chosen.meant = self._settings.stop
            chosen.why.append(f"{warnings} warnings did not help: {chosen.meant.value}")

    def _stands_again(self, chosen: Chosen, history: History, action: int) -> None:
        """Stop what a call after the hint shows once more, by a rule that is seldom wrong twice."""
        finding = chosen.finding
        least = STANDS_AGAIN.get(finding.detector)
        if least is None or finding.severity < least or chosen.meant not in _HINTS or not self._settings.after_warnings:
            return
        last = history.last(finding.detector)
        if last is None or not last.said or not last.action < action <= last.action + HELPED_ACTIONS:
            return
        if (last.helped or 0) < self._settings.effectiveness:
            chosen.meant = self._settings.stop
            chosen.why.append(f"it stands again after the hint: {chosen.meant.value}")
