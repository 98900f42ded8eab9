"""Intervention records and their statistics, made of decisions and their outcomes. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from haltline.interventions.vocabularies.agent_sentinel import prevented_usd, record_of
from haltline.schemas.decisions import ApprovalState, Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome, RecordType, RiskLevel

_RESOLUTIONS: Final[Mapping[ApprovalState, RecordOutcome]] = {
    ApprovalState.APPROVED: RecordOutcome.APPROVED_AFTER_REVIEW,
    ApprovalState.USED: RecordOutcome.APPROVED_AFTER_REVIEW,
    ApprovalState.REJECTED: RecordOutcome.REJECTED_AFTER_REVIEW,
    ApprovalState.EXPIRED: RecordOutcome.BLOCKED,
}
"""The outcomes of requests; an expired one was decided by nobody, and is distinguished in the record's context."""
_ANSWERS: Final = "approval"
"""The detector name of decisions that carry the outcome of a request."""
_OF_ONE_CALL: Final = frozenset({ApprovalState.APPROVED, ApprovalState.USED})
_TOP: Final = 10


def records_of(
    decisions: Sequence[Decision], proposals: Mapping[str, ActionEvent], intents: Mapping[str, str] | None = None
) -> list[InterventionRecord]:
    """Return a record for each intervention, in their order.

    `proposals` are the events that they answer, by id; `intents` are the sessions' goals. Both may be incomplete.
    """
    became = {
        decision.approval.request_id: decision.approval.state for decision in decisions if decision.approval is not None
    }
    records = []
    for decision in decisions:
        if decision.detector == _ANSWERS:
            continue
        state = None if decision.approval is None else became[decision.approval.request_id]
        if decision.approval is not None and decision.approval.behind and state in _OF_ONE_CALL:
            state = ApprovalState.PENDING  # a different call was approved
        record = record_of(
            decision,
            proposals.get(decision.event_id),
            resolution=None if state is None else _RESOLUTIONS.get(state),
            intent=(intents or {}).get(decision.session_id, ""),
        )
        if record is not None:
            context = record.context if state is None else {**record.context, "approval": state.value}
            records.append(record.model_copy(update={"context": context}))
    return records


def statistics(records: Iterable[InterventionRecord]) -> dict[str, Any]:
    """Return counts and sums over records, in the fields of Agent Sentinel's `/interventions/stats`."""
    all_of = list(records)
    blocked = [r for r in all_of if r.outcome is RecordOutcome.BLOCKED]
    by_day: dict[str, list[InterventionRecord]] = {}
    for record in all_of:
        day = datetime.fromtimestamp(record.timestamp / 1000, UTC).date().isoformat()
        by_day.setdefault(day, []).append(record)
    actions = Counter(record.action_name for record in blocked if record.action_name)
    policies = Counter((record.policy_id, record.policy_name) for record in all_of)
    return {
        "total_interventions": len(all_of),
        "by_type": _counted(RecordType, (record.type for record in all_of)),
        "by_outcome": _counted(RecordOutcome, (record.outcome for record in all_of)),
        "cost_prevented_usd": prevented_usd(all_of),
        "high_risk_blocks": sum(record.risk_level in (RiskLevel.HIGH, RiskLevel.CRITICAL) for record in blocked),
        "time_series": [
            {"date": day, "interventions": len(of), "cost_prevented_usd": prevented_usd(of)}
            for day, of in sorted(by_day.items())
        ],
        "top_blocked_actions": [
            {
                "action_name": name,
                "count": count,
                "cost_prevented_usd": prevented_usd(r for r in blocked if r.action_name == name),
            }
            for name, count in actions.most_common(_TOP)
        ],
        "top_triggering_policies": [
            {"policy_id": rule, "policy_name": name, "count": count}
            for (rule, name), count in policies.most_common(_TOP)
        ],
    }


def _counted(names: type[RecordType] | type[RecordOutcome], values: Iterable[str]) -> dict[str, int]:
    counts = Counter(values)
    return {name.value: counts[name] for name in names if counts[name]}
