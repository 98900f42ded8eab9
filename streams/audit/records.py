"""Intervention records, made of decisions and their outcomes. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from haltline.interventions.vocabularies.agent_sentinel import record_of
from haltline.schemas.decisions import ApprovalState, Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome

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
