"""One decision from all findings of an event: pure, in event time."""

from collections.abc import Callable, Mapping, Sequence

from haltline.interventions.acgp.evaluation import Governor, with_governance
from haltline.interventions.decide.level_selection import Chooser
from haltline.interventions.levels import hold
from haltline.interventions.levels.default_levels import kill_code
from haltline.interventions.levels.plugins import NO_EXTENSIONS, Extensions
from haltline.interventions.levels.strategies import Chosen
from haltline.interventions.payloads.builder import Payloads
from haltline.interventions.state.context import NOTHING, Context
from haltline.interventions.state.intervention_history import History
from haltline.interventions.state.messages import STOPPED
from haltline.interventions.state.records import about, flagged, under
from haltline.interventions.state.records import found as found_by
from haltline.interventions.state.session_control import Freeze, Given, Kill, SessionControl, digest
from haltline.schemas.control import HALTLINE, Command, Feedback, Stage
from haltline.schemas.decisions import Decision, Level, Mode
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.tools import ends_turn

__all__ = ["Controller", "Given", "Kill", "SessionControl", "digest"]

MAX_REASON_CHARS = 16_384
"""Maximum length of a decision's reason."""

_BY_OPERATOR = "This session was stopped by an operator. Nothing more is executed; a person has to release it."

ALLOWED = "allowed"
"""The code of a plain verdict."""

MAX_STOPPED_EARLY = 4
"""Stops that are stored before their kill is known; the oldest is dropped first."""


class Controller:
    """Decides on findings, commands and feedback, under one policy."""

    def __init__(self, policy: Policy, extensions: Extensions = NO_EXTENSIONS) -> None:
        """Load the extensions that the policy names. Raises ValueError for an unknown or invalid one."""
        self._policy = policy
        self._chooser = Chooser(policy, extensions)
        self._payloads = Payloads(policy, extensions)
        self._governor = Governor(policy)
        self.examines = bool(self._governor)
        """Whether some sessions are evaluated at every event, even without findings."""

    def decide(
        self,
        standing: SessionControl,
        event: ActionEvent,
        findings: Sequence[Finding],
        rules: Mapping[str, Rule],
        near: Callable[[], dict[str, float]],
        *,
        context: Context = NOTHING,
    ) -> tuple[Decision | None, Decision | None]:
        """Return the decision on an event, and the one that rules in shadow mode would have made; None: no decision.

        The strictest level of the findings applies. A kill is stored in `standing`. Findings in shadow mode do not
        change the decision, and are reported only if it lets the session continue.
        """
        if standing.killed is not None:
            return self._after_kill(standing, event, standing.killed, findings, context=context), None
        held = standing.held if hold.is_held(standing) else None
        if held is not None and (kill := self._goes_on(standing, event, held, context)) is not None:
            return kill, None
        if findings and event.kind is Kind.PROPOSED and ends_turn(event.action):
            findings = hold.without_freezes(findings)  # it may report; what they find stands at the next event
        governed = self.examines and self._governor.concerns(event, context)
        if not findings and not governed:
            return self._verdict(standing, event), None
        history = standing.history or History()
        if findings:
            standing.history = history
        chosen, shadow = self._chooser.choose(standing, event, findings, rules, context)
        governance = None
        if self.examines:
            chosen, governance = self._governor.evaluate(
                history, event, chosen, findings=findings, rules=rules, context=context
            )
            if chosen is not None:
                standing.history = history
        reviewed = governance is not None and governance.ticket is not None  # each review is published
        decision = None
        if chosen is not None and (reviewed or self._is_news(standing, history, event, chosen)):
            found = [f for f in findings if not _in_shadow(rules, f.detector)]
            known = {name: value for name, value in near().items() if not _in_shadow(rules, name)}
            outcome = self._decision(standing, history, event, chosen, found=found, near=known, context=context)
            decision = with_governance(outcome, governance)
        elif (verdict := self._verdict(standing, event)) is not None:
            decision = with_governance(verdict, governance)
        if shadow is None or (decision is not None and decision.level is not Level.ALLOW):
            return decision, None
        if not self._is_news(standing, history, event, shadow):
            return decision, None
        held_back = self._decision(standing, history, event, shadow, found=findings, near=near(), context=context)
        if event.await_verdict:  # a client that waits for the verdict must not take this decision for it
            held_back = held_back.model_copy(update={"scope_id": event.session_id})
        return decision, held_back if decision is not None else with_governance(held_back, governance)

    def kill(self, standing: SessionControl, command: Command, agent_id: str) -> Decision | None:
        """Apply an operator's kill of the session; None if it is killed already."""
        if standing.killed is not None:
            return None
        code = command.code or "session_killed_by_operator"
        decision_id = digest("operator", command.id, command.command_id)
        standing.killed = Kill(decision_id, code, command.reason, command.by, command.time)
        return Decision(
            decision_id=decision_id,
            session_id=command.id,
            agent_id=agent_id,
            event_id=command.command_id,
            time=command.time,
            level=Level.KILL,
            code=code,
            reason=f"killed by {command.by}: {command.reason}",
            message=_BY_OPERATOR if command.code is None else STOPPED,
            **under(self._policy),
        )

    @staticmethod
    def acknowledge(standing: SessionControl, feedback: Feedback) -> bool:
        """Apply feedback of the agent's side. Returns whether a kill became acknowledged."""
        kill = standing.killed
        if feedback.stage is not Stage.STOPPED:
            return False
        if kill is None:
            standing.stopped_early[feedback.decision_id] = feedback.time
            if len(standing.stopped_early) > MAX_STOPPED_EARLY:
                del standing.stopped_early[next(iter(standing.stopped_early))]
            return False
        if feedback.decision_id != kill.decision_id:
            return False
        known = (kill.stopped_at_ms, kill.time_to_stop_ms)
        # The end of the session, or the same feedback, may have arrived before: the earliest time counts.
        kill.stopped_at_ms = feedback.time if kill.stopped_at_ms is None else min(kill.stopped_at_ms, feedback.time)
        if feedback.decided_at is not None and kill.time_to_stop_ms is None:
            # It may acknowledge a kill that was sent again: the first sending counts.
            first_ms = min(feedback.decided_at, kill.sent_ms or feedback.decided_at)
            kill.time_to_stop_ms = max(0, feedback.time - first_ms)
        return known != (kill.stopped_at_ms, kill.time_to_stop_ms)

    @staticmethod
    def has_ended(standing: SessionControl, time_ms: int) -> bool:
        """Apply the end of the session, after which nothing of it runs. Returns whether a kill became acknowledged.

        A guard that ends normally acknowledges what it has received, and may miss a kill that arrives just then.
        """
        kill = standing.killed
        if kill is None:
            return False
        known, ended_ms = kill.stopped_at_ms, max(time_ms, kill.since_ms)
        kill.stopped_at_ms = ended_ms if known is None else min(known, ended_ms)
        return known != kill.stopped_at_ms

    def _decision(
        self,
        standing: SessionControl,
        history: History,
        event: ActionEvent,
        chosen: Chosen,
        *,
        found: Sequence[Finding],
        near: dict[str, float],
        context: Context,
    ) -> Decision:
        finding, level, meant = chosen.finding, chosen.level, chosen.meant
        standing.given[finding.detector] = Given(level=meant.value, time_ms=event.time)
        decision_id = digest(finding.detector, event.session_id, finding.evidence[-1].event_id)
        fields = self._payloads.fields(
            history, event, chosen, found=found, context=context, near=near, decision_id=decision_id
        )
        self._chooser.note(history, event, chosen, context.actions)
        self._chooser.hear(history, chosen)
        flagged = meant >= Level.PAUSE or chosen.last_hint
        decision = Decision(
            decision_id=decision_id,
            level=level,
            code=kill_code(finding.detector) if level is Level.KILL else finding.code,
            reason=finding.reason,
            flag=flagged,
            flag_severity=finding.severity if flagged else None,
            detector=finding.detector,
            confidence=finding.confidence,
            near=near,
            mode=chosen.mode,
            would=None if meant is level else meant,
            **about(event, self._policy),
            **found_by(finding),
            **fields,
        )
        decision = self._payloads.handled(decision, finding, context.failed)
        if level is Level.KILL:
            standing.killed = kill = Kill(decision_id, decision.code, decision.reason, "haltline", event.time)
            kill.stopped_at_ms = standing.stopped_early.pop(decision_id, None)
            kill.time_to_stop_ms = None if kill.stopped_at_ms is None else 0
        return decision

    def _is_news(self, standing: SessionControl, history: History, event: ActionEvent, chosen: Chosen) -> bool:
        """Return whether to publish it: always refusals and changed arguments; within the cooldown, stricter hints."""
        meant = chosen.meant  # a rule in shadow mode repeats as often as an enforced one
        hint = chosen.mode is Mode.WARN  # whatever its level would be, it is not repeated more often than other hints
        if (meant >= Level.PAUSE and not hint) or self._payloads.changes(event, chosen) is not None:
            return True
        if not self._chooser.has_hints_left(history, chosen):
            return False
        last = standing.given.get(chosen.finding.detector)
        if last is None or meant > Level(last.level):
            return True
        return event.time - last.time_ms >= self._policy.cooldown_s * 1000

    def _after_kill(
        self, standing: SessionControl, event: ActionEvent, kill: Kill, findings: Sequence[Finding], *, context: Context
    ) -> Decision | None:
        """Refuse the proposals of a killed session; ends of earlier calls pass, and new activity is published."""
        if event.kind is not Kind.PROPOSED and not event.await_verdict and not findings:
            return None
        standing.after_kill += 1
        finding = findings[0] if findings else None
        standing.history = history = standing.history or History()
        return Decision(
            decision_id=digest("killed", event.session_id, event.event_id),
            level=Level.KILL,
            code=kill.code,
            reason=finding.reason if finding else f"the session was killed before: {kill.reason}"[:MAX_REASON_CHARS],
            message=STOPPED,
            detector="killed",
            **about(event, self._policy),
            **flagged(finding)
            | {"values": {"attempts_after_kill": standing.after_kill, **(finding.values if finding else {})}},
            **self._payloads.of_refusal(history, event, context),
        )

    def _goes_on(self, standing: SessionControl, event: ActionEvent, held: Freeze, context: Context) -> Decision | None:
        """Return the kill of a held session that goes on for too long; None: not yet."""
        act = context.deed
        is_turn = event.kind is Kind.MODEL_TURN and event.outcome is Outcome.REFUSED
        is_call = act is not None and act.is_attempt and not ends_turn(event.action)
        rules = self._policy.operated.hold
        if held.by != HALTLINE or act is None or not (is_turn or is_call):
            return None
        if not hold.counts_turn(held, act, rules, is_turn=is_turn):
            return None
        decision_id = digest("held", event.session_id, event.event_id)
        reason = f"{held.turns} turns with refused calls while the session was held: {held.reason}"[:MAX_REASON_CHARS]
        standing.killed = Kill(decision_id, hold.WENT_ON, reason, HALTLINE, event.time)
        standing.history = history = standing.history or History()
        return Decision(
            decision_id=decision_id,
            level=Level.KILL,
            code=hold.WENT_ON,
            reason=reason,
            message=STOPPED,
            flag=True,
            detector=hold.DETECTOR,
            values={"turns": held.turns},
            thresholds={"kill_after": rules.kill_after},
            **about(event, self._policy),
            **self._payloads.of_refusal(history, event, context),
        )

    def _verdict(self, standing: SessionControl, event: ActionEvent) -> Decision | None:
        """Return the verdict on an event without findings, if one is awaited."""
        if not event.await_verdict:
            return None
        held = standing.held
        if held is not None and hold.is_held(standing) and event.kind is Kind.PROPOSED and not ends_turn(event.action):
            return Decision(
                decision_id=digest("held", event.session_id, event.event_id),
                level=Level.PAUSE,
                code=held.code or "session_frozen_by_operator",
                reason=f"the session is held: {held.reason}"[:MAX_REASON_CHARS],
                message=hold.refusal(held),
                detector=hold.DETECTOR,
                **about(event, self._policy),
            )
        return Decision(
            decision_id=digest("verdict", event.session_id, event.event_id),
            level=Level.ALLOW,
            code=ALLOWED,
            reason="nothing against it",
            **about(event, self._policy),
        )


def _in_shadow(rules: Mapping[str, Rule], name: str) -> bool:
    rule = rules.get(name)
    return rule is not None and rule.mode is Mode.SHADOW
