"""Second opinions on findings of judgement: requests to a model, and the effects of its verdicts. Pure, in event time.

A finding between the policy's thresholds has its rule's effect, and a model's verdict is requested. `runaway` raises
it: the session's next call gets the level of the upper threshold, PAUSE at most. `sound` withdraws it: the hint does
not count, its incident is resolved, and the rule's findings between the thresholds are ignored for a while. A verdict
neither releases nor kills, and does not affect other rules. On probation, where a PAUSE is a kill, verdicts are neither
requested nor applied.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from haltline.interventions.control import incidents
from haltline.interventions.levels.default_levels import JUDGEMENT, cause_of_rule
from haltline.interventions.levels.in_doubt import CODE, is_eligible, is_in_doubt
from haltline.interventions.state.open_incident import About
from haltline.interventions.state.session_control import OpenQuestion, SessionControl
from haltline.schemas.decisions import Decision, Level, Mode, ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Evidence, Finding
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.opinions import Opinion, OpinionRequest, Verdict, WithoutAnswer
from haltline.schemas.policy import Policy
from haltline.schemas.removed_rules import REMOVED

UNREQUESTED: Final = "opinion_unrequested"
"""An answer without a request: it goes to the dead letter topic."""
WITHDRAWN: Final = "withdrawn_by_opinion"
"""The resolution of an incident after the verdict `sound`."""


class _Act(Protocol):
    """The event as the policy reads it."""

    event: ActionEvent
    is_attempt: bool

    @property
    def evidence(self) -> Evidence: ...
    @property
    def refused(self) -> bool: ...


class SecondOpinions:
    """Second opinions under one policy; without `opinion` in it, nothing is requested and nothing changes."""

    def __init__(self, policy: Policy) -> None:
        """Raises ValueError for the name of a rule that is not one of judgement."""
        self._policy = policy
        self._rules = policy.opinion
        for name in self._rules.rules if self._rules is not None else ():
            if name not in JUDGEMENT and name not in REMOVED:
                expected = ", ".join(sorted(JUDGEMENT))
                raise ValueError(f"opinion.rules: expected rules of judgement ({expected}), got {name!r}")

    def raised(self, standing: SessionControl, act: _Act) -> list[Finding]:
        """Return the findings that verdicts, or their absence, cause on this event."""
        rules = self._rules
        if rules is None or standing.killed is not None or standing.probation is not None:
            return []
        found, attempt = [], act.is_attempt and not act.refused
        for rule, question in standing.opinions.items():
            if question.carried_out or not (attempt or (question.on_turn and act.event.kind is Kind.MODEL_TURN)):
                continue
            if question.verdict == Verdict.RUNAWAY:
                why = f"a second opinion says runaway: {question.why}"
            elif question.verdict is None and act.event.time > question.expires_ms and self._pauses:
                why = f"no second opinion within {rules.timeout_s:g} s"
            else:
                continue
            question.carried_out = True
            evidence = (Evidence(event_id=question.event_id), act.evidence)
            found.append(Finding(detector=rule, code=CODE, severity=rules.upper, reason=why, evidence=evidence))
        return found

    def counting(self, standing: SessionControl, findings: Sequence[Finding], actions: int) -> Sequence[Finding]:
        """Return the findings that may have an effect: without those in doubt of withdrawn rules."""
        rules = self._rules
        if rules is None or not standing.opinions:
            return findings
        return [
            finding
            for finding in findings
            if not (
                is_in_doubt(finding, rules)
                and (question := standing.opinions.get(finding.detector)) is not None
                and question.verdict == Verdict.SOUND
                and actions - question.action <= rules.hold_actions
            )
        ]

    def request(
        self, standing: SessionControl, event: ActionEvent, decision: Decision | None, *, actions: int, goal: str
    ) -> Decision | None:
        """Return the decision, with a request if it is in doubt; a session has one open request at a time."""
        if decision is None or self._rules is None or standing.killed is not None or standing.probation is not None:
            return decision
        if decision.code == CODE:
            question = standing.opinions.get(decision.detector)
            tell = question.tell if question is not None else ""
            return decision.model_copy(update={"message": f"{decision.message}\n{tell}".strip()}) if tell else decision
        if not self._is_in_doubt(decision) or self._is_answered(standing, event, decision.detector, actions):
            return decision
        expires_ms = event.time + round(self._rules.timeout_s * 1000)
        standing.opinions[decision.detector] = OpenQuestion(
            decision.decision_id, event.event_id, event.time, expires_ms, actions, on_turn=event.kind is Kind.MODEL_TURN
        )
        return decision.model_copy(update={"opinion": OpinionRequest(expires=expires_ms, goal=goal)})

    def answer(
        self, standing: SessionControl, opinion: Opinion, *, clock_ms: int, actions: int
    ) -> tuple[str, list[IncidentRecord]]:
        """Apply an answer. Returns the name under which it is counted, and the records of changed incidents."""
        question = standing.opinions.get(opinion.detector)
        if question is None or (question.decision_id, question.event_id) != (opinion.decision_id, opinion.event_id):
            return UNREQUESTED, []
        if question.verdict is not None:
            return "opinion_repeated", []
        if clock_ms > question.expires_ms or standing.killed is not None or self._rules is None:
            return "opinion_late", []
        if opinion.verdict is None:
            question.expires_ms = min(question.expires_ms, clock_ms)
            return "opinion_none", []
        question.verdict, question.action = opinion.verdict.value, actions
        question.why, question.tell = opinion.why, opinion.tell
        withdrawn = []
        if opinion.verdict is Verdict.SOUND:
            withdrawn = _withdraw(standing, opinion, question.time_ms, clock_ms)
        return f"opinion_{opinion.verdict}", withdrawn

    @property
    def _pauses(self) -> bool:
        return self._rules is not None and self._rules.without_answer is WithoutAnswer.PAUSE

    def _is_in_doubt(self, decision: Decision) -> bool:
        """Return whether a verdict may change it: a hint of an enforced rule. A pause is left to a person."""
        rules = self._rules
        return (
            rules is not None
            and decision.mode is Mode.ENFORCE
            and Level.NUDGE <= decision.level < Level.PAUSE
            and decision.severity is not None
            and is_eligible(rules, decision.detector, decision.severity)
        )

    def _is_answered(self, standing: SessionControl, event: ActionEvent, rule: str, actions: int) -> bool:
        """Return whether another question is open, or the rule's last answer is still valid."""
        if any(q.verdict is None and event.time <= q.expires_ms for q in standing.opinions.values()):
            return True
        last, rules = standing.opinions.get(rule), self._rules
        return last is not None and rules is not None and actions - last.action <= rules.hold_actions


def _withdraw(standing: SessionControl, opinion: Opinion, given_ms: int, clock_ms: int) -> list[IncidentRecord]:
    if standing.history is not None:
        standing.history.withdraw(opinion.detector, given_ms)
    cause = cause_of_rule(opinion.detector)
    incident = standing.incidents.get(cause)
    if incident is None or incident.count > 1 or incident.decision_id != opinion.decision_id:
        return []  # other decisions belong to it
    about = About(ScopeKind.SESSION, opinion.session_id)
    return incidents.close(standing.incidents, about, WITHDRAWN, clock_ms, causes=[cause], comment=opinion.why)
