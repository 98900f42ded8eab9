"""Agent Sentinel: intervention records of twelve types and six outcomes."""

from collections.abc import Iterable, Mapping
from typing import Final

from haltline.interventions.author_rules.objection import STALE
from haltline.interventions.payloads.modify import Changes
from haltline.interventions.payloads.remediation import BUDGETS, EVIDENCE, LOOPS
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome, RecordType, RiskLevel
from haltline.schemas.record import JsonObject

_LOOPS_ACROSS: Final = frozenset({"agent_destruction", "respawn", "spawn_storm", "target_destruction"})
_BUDGETS_ACROSS: Final = frozenset({"agent_budget", "mission_budget", "tree_budget"})

_BY_CODE: Final[Mapping[str, RecordType]] = {
    "no_visible_effect": RecordType.IDEMPOTENT_REPLAY,
    "critical_path": RecordType.CONTENT_BLOCKED,
    STALE: RecordType.MISSING_EVIDENCE,
}
"""By a finding's code; a code that is the name of a type is that type, such as a correlation's or a plug-in's own."""


def record_of(
    decision: Decision, event: ActionEvent | None = None, *, resolution: RecordOutcome | None = None, intent: str = ""
) -> InterventionRecord | None:
    """Return the record of a decision; None for a plain verdict.

    `event`: the proposal, if available; with it the record has the inputs. `resolution`: a person's answer to a pause;
    without one it is `escalated`. An expired one has none: `blocked`.
    """
    if not decision.detector and decision.level is Level.ALLOW and not decision.flag:
        return None
    inputs = None if event is None else event.args
    kind, outcome = type_of(decision), resolution or outcome_of(decision)
    prevented = outcome in (RecordOutcome.BLOCKED, RecordOutcome.REJECTED_AFTER_REVIEW)
    return InterventionRecord(
        id=f"int_{decision.decision_id}"[:256],
        type=kind,
        outcome=outcome,
        action_name=decision.action or "",
        description=f"{decision.code} by {decision.detector or 'an operator'}"
        + (f" on {decision.target}" if decision.target else ""),
        agent_id=decision.agent_id,
        run_id=decision.session_id,
        mission_id=None if event is None else event.mission_id,
        task_id=decision.call_id,
        policy_id=decision.detector or "operator",
        policy_name=f"{decision.policy} version {decision.policy_version}",
        risk_level=RiskLevel.MINIMAL if decision.severity is None else RiskLevel(decision.severity.value),
        estimated_cost_usd=decision.estimated_cost_usd or 0.0,
        cost_prevented_usd=(decision.cost_prevented_usd or 0.0) if prevented else 0.0,
        attempt=decision.attempt or 1,
        blast_radius=decision.blast_radius or "",
        reason=decision.reason,
        agent_intent=intent,
        original_inputs=inputs,
        modified_inputs=_changed(decision, inputs),
        remediation_payload=decision.remediation,
        context=_context(decision),
        timestamp=decision.time,
        created_at=decision.decided_at,
    )


render = record_of
"""The record of a decision alone."""


def _changed(decision: Decision, inputs: JsonObject | None) -> JsonObject | None:
    """Return the arguments as the decision changes them; of unknown inputs only the changes, None without any."""
    if decision.arguments is None and not decision.without_arguments:
        return None
    changes = Changes(decision.arguments or {}, decision.without_arguments or ())
    return changes.put if inputs is None else changes.of(inputs)


def _context(decision: Decision) -> JsonObject:
    context = {"level": decision.level.value, "mode": decision.mode.value}
    if decision.would is not None:
        context["would"] = decision.would.value
    if decision.level is Level.KILL:  # the kill switch of Agent Sentinel: run, agent and mission
        context["kill_switch"] = "run" if decision.scope is ScopeKind.SESSION else decision.scope.value
    return context


def type_of(decision: Decision) -> RecordType:
    """Return the type; a decision held back by its mode is a warning."""
    rule, code, level = decision.detector, decision.code.removeprefix("session_killed_"), decision.level
    budget = rule in BUDGETS or rule in _BUDGETS_ACROSS or code == RecordType.BUDGET_WARNING.value
    if level < Level.PAUSE:
        if decision.arguments is not None or decision.without_arguments:
            return RecordType.DOWNGRADE
        if level is Level.THROTTLE:
            return RecordType.RATE_LIMITED
        return RecordType.BUDGET_WARNING if budget else RecordType.WARNING
    named = next((kind for kind in RecordType if kind.value in (code, rule.removeprefix("correlation_"))), None)
    if level is Level.PAUSE:
        return RecordType.APPROVAL_REQUIRED
    if level is Level.ROLLBACK:
        return RecordType.DOWNGRADE
    if named is not None:
        return named
    if budget:
        return RecordType.BUDGET_EXCEEDED
    if code in _BY_CODE:
        return _BY_CODE[code]
    if rule == "resource_growth":
        return RecordType.RATE_LIMITED
    if rule in LOOPS or rule in _LOOPS_ACROSS or code == "loop_guard":
        return RecordType.LOOP_DETECTED
    return RecordType.MISSING_EVIDENCE if rule in EVIDENCE else RecordType.HARD_BLOCK


def outcome_of(decision: Decision) -> RecordOutcome:
    """Return the outcome of the call, as far as the decision shows it."""
    level = decision.level
    if level is Level.PAUSE:
        return RecordOutcome.ESCALATED
    if level is Level.ROLLBACK:
        return RecordOutcome.MODIFIED
    if level >= Level.BLOCK:
        return RecordOutcome.BLOCKED
    changed = decision.arguments is not None or decision.without_arguments
    return RecordOutcome.MODIFIED if changed or level is Level.THROTTLE else RecordOutcome.WARNED


def prevented_usd(records: Iterable[InterventionRecord]) -> float:
    """Return the total prevented cost in US dollars: each refused call counts once, however often it was tried."""
    return round(sum(record.cost_prevented_usd for record in records), 6)
