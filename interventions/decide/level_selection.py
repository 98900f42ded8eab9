"""From the findings of one event to one level, and its decision. Pure, in event time.

The steps, which the code below follows from top to bottom:

1. **What stands against the session** answers first: a kill refuses each call, and a held session that goes on for too
   long is killed.
2. **Exemptions.** A call that ends the turn may report: what would freeze the whole session waits for the next event.
3. **The rule's level**, by severity, or that of the policy's strategy (`haltline.interventions.levels.strategies`).
4. **The ladder.** A level that was tried often enough without effect becomes the next one. Warnings that did not help
   add up to a stop, and so does a finding that stands again after its hint.
5. **Progress.** Findings that the session makes none share one course (`haltline.interventions.levels.hold`): a hint
   first, then one refused call, then the hold of the session.
6. **The strictest** of all findings applies. One of a rule in shadow mode is only reported. Before that, the policy's
   experiment (`haltline.interventions.levels.experiment`) holds hints back.
7. **ACGP**, for sessions that the policy governs by it (`haltline.interventions.acgp`).
8. **Published** is what is no repetition. A kill is stored, and stands from then on.

Probation, approvals and declared batches change the decision afterwards (`haltline.streams.engine.core`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from haltline.interventions.acgp.evaluation import Governor, with_governance
from haltline.interventions.author_rules.stated import Stated
from haltline.interventions.decide import decision_records
from haltline.interventions.levels import hold
from haltline.interventions.levels.default_levels import (
    JUDGEMENT,
    NO_STOP_BY_WARNINGS,
    PLAIN,
    STANDS_AGAIN,
    default_level,
)
from haltline.interventions.levels.experiment import HINTS, put_in_arm
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
from haltline.interventions.payloads.builder import Payloads
from haltline.interventions.state import texts
from haltline.interventions.state.context import NOTHING, Context, Deed
from haltline.interventions.state.intervention_history import HELPED_ACTIONS, Entry, History
from haltline.interventions.state.session_control import Given, Kill, SessionControl, digest
from haltline.schemas.control import HALTLINE
from haltline.schemas.decisions import Arm, Decision, Level, Mode
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.intervening import DEFAULT, Interventions
from haltline.schemas.payloads import Governance
from haltline.schemas.policy import HoldRules, Policy, Rule
from haltline.schemas.tools import ends_turn


class LevelSelection:
    """The decisions on events under one policy."""

    def __init__(self, policy: Policy, extensions: Extensions = NO_EXTENSIONS) -> None:
        """Load what the policy names of other packages. Raises ValueError for an unknown or invalid one."""
        self._policy = policy
        self._settings = settings = policy.interventions or DEFAULT
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
        self._payloads = Payloads(policy, extensions)
        self._governor = Governor(policy)
        self.examines = bool(self._governor)
        """Whether some sessions are evaluated at every event, even without findings."""

    def decide(
        self,
        control: SessionControl,
        event: ActionEvent,
        findings: Sequence[Finding],
        rules: Mapping[str, Rule],
        near: Callable[[], dict[str, float]],
        *,
        context: Context = NOTHING,
    ) -> tuple[Decision | None, Decision | None]:
        """Return the decision on an event, and the one that rules in shadow mode would have made; None: no decision.

        The strictest level of the findings applies. A kill is stored in `control`. Findings in shadow mode do not
        change the decision, and are reported only if it lets the session continue.
        """
        # 1. What stands against the session.
        if control.killed is not None:
            return self._in_killed_session(control, event, control.killed, findings, context), None
        if (kill := self._kill_of_held_session(control, event, context)) is not None:
            return kill, None
        # 2. Exemptions.
        findings = _without_exempt(event, findings)
        if not findings and not (self.examines and self._governor.concerns(event, context)):
            return decision_records.without_finding(control, event, self._policy), None
        # 3. to 6. The level.
        history = control.history or History()
        subject = _Subject(control, history, event, findings, rules, near, context)
        chosen = _by_progress(subject, self._levels(subject), self._policy.operated.hold)
        if self._policy.experiment is not None:
            put_in_arm(self._policy.experiment, event.session_id, self._unchanging(event, chosen))
        effective, shadow = _strictest(chosen)
        # 7. ACGP.
        governance = None
        if self.examines:
            effective, governance = self._governor.evaluate(
                history, event, effective, findings=findings, rules=rules, context=context
            )
        if findings or effective is not None:
            control.history = history
        # 8. What is published.
        decision = self._enforced(subject, effective, governance)
        return decision, self._in_shadow(subject, shadow, decision, governance)

    # 1. What stands against the session.

    def _in_killed_session(
        self, control: SessionControl, event: ActionEvent, kill: Kill, findings: Sequence[Finding], context: Context
    ) -> Decision | None:
        """Refuse the proposals of a killed session; ends of earlier calls pass, and new activity is published."""
        if event.kind is not Kind.PROPOSED and not event.await_verdict and not findings:
            return None
        control.after_kill += 1
        control.history = history = control.history or History()
        refusal = self._payloads.of_refusal(history, event, context)
        finding = findings[0] if findings else None
        return decision_records.after_kill(self._policy, event, kill, finding, control.after_kill, **refusal)

    def _kill_of_held_session(self, control: SessionControl, event: ActionEvent, context: Context) -> Decision | None:
        """Kill a held session that goes on for too long; None: not yet."""
        held, act, rules = control.held, context.deed, self._policy.operated.hold
        if held is None or act is None or held.by != HALTLINE or not hold.is_held(control):
            return None
        is_turn = event.kind is Kind.MODEL_TURN and event.outcome is Outcome.REFUSED
        is_call = act.is_attempt and not ends_turn(event.action)
        if not (is_turn or is_call) or not hold.counts_turn(held, act, rules, is_turn=is_turn):
            return None
        control.killed = kill = decision_records.kill_of_held(event, held)
        control.history = history = control.history or History()
        refusal = self._payloads.of_refusal(history, event, context)
        return decision_records.went_on(self._policy, event, kill, held, **refusal)

    # 3. and 4. The level of each finding.

    def _levels(self, subject: "_Subject") -> Sequence[Chosen]:
        """Return the level of each finding. Judges earlier interventions, and stores the findings in the history."""
        chosen = [self._level(subject, finding) for finding in subject.findings]
        for finding in subject.findings:
            subject.history.note_issue(finding.detector, subject.event.time)
        return chosen

    def _level(self, subject: "_Subject", finding: Finding) -> Chosen:
        """Return the level of one finding, after strategy and ladder, unless it states its own."""
        if isinstance(finding, Stated):
            return Chosen(finding, finding.mode, finding.level, says=finding.says)
        settings, history, rule = self._settings, subject.history, subject.rules[finding.detector]
        self._judge(subject, finding)
        by_rule = rule.levels.get(finding.severity) or default_level(finding.detector, finding.severity)
        chosen = Chosen(finding, rule.mode, by_rule, case=_case(settings, subject, finding, by_rule))
        self._by_strategy(chosen, subject.context)
        _after_attempts(settings, chosen, history)
        _after_warnings(settings, chosen, history)
        if finding.evidence[-1].event_id == subject.event.event_id:  # this event shows it
            _again_after_hint(settings, chosen, history, subject.context.actions)
        return chosen

    def _unchanging(self, event: ActionEvent, chosen: Sequence[Chosen]) -> Sequence[Chosen]:
        """Return those that do not change the call's arguments: an experiment holds back texts only."""
        return [one for one in chosen if self._payloads.changes(event, one) is None]

    def _judge(self, subject: "_Subject", finding: Finding) -> None:
        """Judge by a finding whether the last intervention of its rule helped."""
        cooldown_ms = self._policy.cooldown_s * 1000
        context, time_ms = subject.context, subject.event.time
        judged = subject.history.judge(finding.detector, finding.severity, time_ms, context.actions, cooldown_ms)
        if judged is not None and judged.helped is not None and judged.said and not judged.silent:
            context.judged(finding.detector, judged.level, judged.helped)

    def _by_strategy(self, chosen: Chosen, context: Context) -> None:
        """Take the level of the policy's strategy; if that fails, the rule's own applies."""
        finding, case = chosen.finding, chosen.case
        strategy = self._own.get(finding.detector, self._strategy)
        if case is None or strategy is self._by_rule:
            return
        chosen.strategy = name = self._settings.strategies.get(finding.detector, self._settings.strategy)
        try:
            level = strategy.choose(case)
        except Exception as error:  # an error in another package
            context.failed(f"strategy {name}", error)
            chosen.why.append(f"{name} failed: the rule's {chosen.meant.value}")
            return
        chosen.why.append(f"{name}: {level.value}")
        if finding.detector not in self._own and finding.severity is Severity.CRITICAL and level < chosen.meant:
            # Only an explicit setting for the rule may relax it where each step loses data or money.
            chosen.why.append(f"critical: the rule's {chosen.meant.value}")
        else:
            chosen.meant = level

    # 8. What is published.

    def _enforced(self, subject: "_Subject", chosen: Chosen | None, governance: Governance | None) -> Decision | None:
        """Return the decision of rules that are not in shadow mode, or the verdict that is awaited without one."""
        reviewed = governance is not None and governance.ticket is not None  # each review is published
        if chosen is not None and (reviewed or self._is_news(subject, chosen)):
            found = [finding for finding in subject.findings if not _is_in_shadow(subject, finding.detector)]
            near = {name: value for name, value in subject.near().items() if not _is_in_shadow(subject, name)}
            return with_governance(self._publish(subject, chosen, found, near), governance)
        verdict = decision_records.without_finding(subject.control, subject.event, self._policy)
        return None if verdict is None else with_governance(verdict, governance)

    def _in_shadow(
        self, subject: "_Subject", chosen: Chosen | None, decision: Decision | None, governance: Governance | None
    ) -> Decision | None:
        """Return the decision that rules in shadow mode would have made, if the real one lets the session continue."""
        if chosen is None or (decision is not None and decision.level is not Level.ALLOW):
            return None
        if not self._is_news(subject, chosen):
            return None
        held_back = self._publish(subject, chosen, subject.findings, subject.near())
        if subject.event.await_verdict:  # a client that waits for the verdict must not take this decision for it
            held_back = held_back.model_copy(update={"scope_id": subject.event.session_id})
        return held_back if decision is not None else with_governance(held_back, governance)

    def _is_news(self, subject: "_Subject", chosen: Chosen) -> bool:
        """Return whether to publish it: always refusals and changed arguments; within the cooldown, stricter hints."""
        meant = chosen.meant  # a rule in shadow mode repeats as often as an enforced one
        hint = chosen.mode is Mode.WARN  # whatever its level would be, it is not repeated more often than other hints
        if (meant >= Level.PAUSE and not hint) or self._payloads.changes(subject.event, chosen) is not None:
            return True
        if chosen.told in HINTS and subject.history.hints >= self._settings.max_interventions:
            return False
        if isinstance(chosen.finding, Stated):
            return True  # it is about this call
        last = subject.control.given.get(chosen.finding.detector)
        if last is None or meant > Level(last.level):
            return True
        return subject.event.time - last.time_ms >= self._policy.cooldown_s * 1000

    def _publish(
        self, subject: "_Subject", chosen: Chosen, found: Sequence[Finding], near: dict[str, float]
    ) -> Decision:
        """Return the decision, and store it: in the history, and a kill in the session's control state."""
        control, history, event, context, finding = (
            subject.control,
            subject.history,
            subject.event,
            subject.context,
            chosen.finding,
        )
        control.given[finding.detector] = Given(level=chosen.meant.value, time_ms=event.time)
        decision_id = digest(finding.detector, event.session_id, finding.evidence[-1].event_id)
        fields = self._payloads.fields(
            history, event, chosen, found=found, context=context, near=near, decision_id=decision_id
        )
        _remember(history, event, chosen, context.actions)
        if chosen.told in HINTS:
            history.hints += 1
            chosen.last_hint = history.hints == self._settings.max_interventions
        decision = decision_records.of_finding(self._policy, event, chosen, decision_id, near=near, **fields)
        decision = self._payloads.handled(decision, finding, context.failed)
        if decision.level is Level.KILL:
            control.killed = kill = Kill(decision_id, decision.code, decision.reason, HALTLINE, event.time)
            kill.stopped_at_ms = control.stopped_early.pop(decision_id, None)
            kill.time_to_stop_ms = None if kill.stopped_at_ms is None else 0
        return decision


class _Subject(NamedTuple):
    """One event with its findings, and what decides on them besides the policy."""

    control: SessionControl
    history: History
    event: ActionEvent
    findings: Sequence[Finding]
    rules: Mapping[str, Rule]
    near: Callable[[], dict[str, float]]
    context: Context


# 2. Exemptions.


def _without_exempt(event: ActionEvent, findings: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings that count at this event: a call that ends the turn may report, in a freeze as well."""
    if findings and event.kind is Kind.PROPOSED and ends_turn(event.action):
        return hold.without_freezes(findings)  # what they find stands at the next event
    return findings


# 3. The input of a strategy.


def _case(settings: Interventions, subject: _Subject, finding: Finding, by_rule: Level) -> Case:
    """Return one finding with the recent interventions of its rule, and whether they helped."""
    history, event = subject.history, subject.event
    since_ms = int(event.time - settings.history_s * 1000)
    recent = history.recent(finding.detector, since_ms)
    last = history.last(finding.detector)
    last = last if last is not None and last.time_ms >= since_ms else None
    helped = [entry.helped for entry in recent if entry.helped is not None]
    return Case(
        finding=finding,
        by_rule=by_rule,
        impact=IMPACT[subject.context.effect],
        escalation=sum(value < settings.effectiveness for value in helped),
        issues=history.recent_issues(finding.detector, since_ms),
        last=None if last is None else Level(last.level),
        since_s=0.0 if last is None else (event.time - last.time_ms) / 1000,
        effectiveness=round(sum(helped) / len(helped), 3) if helped else None,
    )


# 4. The ladder.


def _after_attempts(settings: Interventions, chosen: Chosen, history: History) -> None:
    """Replace a level that was tried often enough without effect by the next one."""
    most = settings.max_attempts.get(chosen.meant)
    if most is None:
        return
    meant = chosen.meant.value
    tried = history.streak(chosen.finding.detector, settings.effectiveness)
    chosen.attempts = sum(entry.level == meant for entry in tried)
    if chosen.attempts >= most:
        level = harder(chosen.meant)
        chosen.becomes(level, f"{meant} did not help {chosen.attempts} times: {level.value}")


def _after_warnings(settings: Interventions, chosen: Chosen, history: History) -> None:
    """Stop after enough warnings that did not help, so that they are not repeated forever."""
    rule, most = chosen.finding.detector, settings.after_warnings
    if not most or not Level.ALLOW < chosen.meant < Level.PAUSE or rule in NO_STOP_BY_WARNINGS:
        return
    warnings = sum(1 for _ in history.streak(rule, settings.effectiveness))
    if warnings >= most:
        chosen.becomes(settings.stop, f"{warnings} warnings did not help: {settings.stop.value}")


def _again_after_hint(settings: Interventions, chosen: Chosen, history: History, action: int) -> None:
    """Stop what a call after the hint shows once more, by a rule that is seldom wrong twice."""
    finding = chosen.finding
    least = STANDS_AGAIN.get(finding.detector)
    if least is None or finding.severity < least or chosen.meant not in HINTS or not settings.after_warnings:
        return
    last = history.last(finding.detector)
    if last is None or not last.said or not last.action < action <= last.action + HELPED_ACTIONS:
        return
    if (last.helped or 0) < settings.effectiveness:
        chosen.becomes(settings.stop, f"it stands again after the hint: {settings.stop.value}")


# 5. Progress: a hint first, then one refused call, then the hold.


def _by_progress(subject: _Subject, chosen: Sequence[Chosen], rules: HoldRules) -> Sequence[Chosen]:
    """Return what may be decided: of stops for lack of progress, what the session's course asks for now."""
    if hold.is_held(subject.control):
        return [one for one in chosen if one.finding.detector not in JUDGEMENT]
    judging = subject.control.judging
    made = 0 if judging is None else judging.attempts - _is_call(subject.context.deed)
    # After the attempts, what would be a hint shows as well that no progress has come.
    attempted = judging is not None and made >= rules.attempts
    stops = [one for one in chosen if _stops_for_progress(one, attempted=attempted)]
    if not stops:
        return chosen
    others = [one for one in chosen if one not in stops]
    # A rule's own finding says more than that the call is repeated.
    first = max(stops, key=lambda one: (one.finding.code in PLAIN, one.meant, one.finding.code != hold.REPEATED))
    return [*others, first] if _next_step(subject, first, made, rules) else others


def _next_step(subject: _Subject, first: Chosen, made: int, rules: HoldRules) -> bool:
    """Change a stop to the next step; False: the next attempts are made. `made`: the attempts after a refusal."""
    control, event, act, finding = subject.control, subject.event, subject.context.deed, first.finding
    judging, plain = control.judging, finding.code in PLAIN
    if plain and not hold.was_hinted(subject.history):
        first.becomes(Level.REINFORCE, "a hint first")
        return True
    if judging is not None and event.kind is Kind.MODEL_TURN:
        judging.attempts += 1  # of a session that only talks
        made += 1
    since_ms = hold.since_ms(subject.history, event) if judging is None else judging.since_ms
    if plain or made >= rules.attempts:
        why = f"no progress in {made} attempts after a refusal" if made else "the same again after a hint"
        first.becomes(Level.PAUSE, why, holds=True)
        return True
    if judging is not None and finding.code != hold.REPEATED:
        return False
    why = "one call is refused before the session is held"
    advice = texts.hint(Level.NUDGE, finding.code, finding.detector, finding.target)
    first.becomes(Level.BLOCK, why, says=texts.without_progress(finding.reason, since_ms, advice))
    control.judging = judging or hold.judging(finding, since_ms, act, on_call=_is_call(act))
    return True


def _is_call(act: Deed | None) -> bool:
    return act is not None and act.is_attempt and not act.is_result


def _stops_for_progress(one: Chosen, *, attempted: bool) -> bool:
    """Return whether it would stop for lack of progress; `attempted`: no attempt after a refusal is left."""
    finding = one.finding
    if one.mode is not Mode.ENFORCE or finding.detector not in JUDGEMENT:
        return False
    if attempted and one.meant > Level.ALLOW and finding.severity >= Severity.MEDIUM:
        return finding.detector != "polling" or one.meant is Level.PAUSE  # what waits is slowed
    return one.meant is Level.PAUSE


# 6. The strictest.


def _strictest(chosen: Sequence[Chosen]) -> tuple[Chosen | None, Chosen | None]:
    """Return the strictest choice, and the one that rules in shadow mode would have made.

    The first is of rules that are not in shadow mode, whatever the others find. The second is None if the first does
    more than let the session continue.
    """
    effective = max((one for one in chosen if one.mode is not Mode.SHADOW), key=_rank, default=None)
    hardest = max(chosen, key=_rank, default=None)
    return effective, hardest if hardest is not None and hardest.mode is Mode.SHADOW else None


def _rank(chosen: Chosen) -> tuple[Level, bool, Level, Severity, bool]:
    # Of two at the same level, the one with a target is more useful to the operator.
    return chosen.level, chosen.holds, chosen.meant, chosen.finding.severity, chosen.finding.target is not None


def _is_in_shadow(subject: _Subject, name: str) -> bool:
    rule = subject.rules.get(name)
    return rule is not None and rule.mode is Mode.SHADOW


# 8. What is stored of a published decision.


def _remember(history: History, event: ActionEvent, chosen: Chosen, actions: int) -> None:
    """Store a published decision, to judge later whether it helped."""
    finding, meant = chosen.finding, chosen.meant
    if meant is Level.ALLOW:
        return  # a flag for people: nothing to judge
    last = history.last(finding.detector)
    if meant >= Level.PAUSE and last is not None and Level(last.level) is meant and last.helped is None:
        return  # a refusal repeated for each call
    said, silent = chosen.told > Level.ALLOW, chosen.arm is Arm.SILENT
    history.note(
        Entry(finding.detector, meant.value, finding.severity.value, event.time, actions, said=said, silent=silent)
    )
