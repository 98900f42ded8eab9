"""Rows of interventions and approvals. Each is made again from all its records when a new one arrives."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from haltline.interventions.levels.default_levels import shown_level
from haltline.interventions.vocabularies.agent_sentinel import record_of
from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import WHOLE_SESSION, Approval, ApprovalState, Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome
from haltline.streams.history.kept import Kept, Row
from haltline.streams.history.words import words_of

_ANSWERS: Final = "approval"
"""The detector name of decisions that carry the outcome of a request."""
_OWN: Final = "int_"
_SAME: Final = {"id", "agent_id", "type", "outcome", "action_name", "policy_id", "policy_name", "risk_level"}
"""The columns that are as in the record."""
_LEVELS: Final = frozenset(level.value for level in Level)
_RESOLUTIONS: Final[Mapping[ApprovalState, RecordOutcome]] = {
    ApprovalState.APPROVED: RecordOutcome.APPROVED_AFTER_REVIEW,
    ApprovalState.USED: RecordOutcome.APPROVED_AFTER_REVIEW,
    ApprovalState.REJECTED: RecordOutcome.REJECTED_AFTER_REVIEW,
    ApprovalState.EXPIRED: RecordOutcome.BLOCKED,
}
"""The outcomes of requests; an expired one was decided by nobody, and is distinguished in the record's context."""
_EXPIRED: Final = ApprovalState.EXPIRED
_NEVER_MS: Final = 1 << 53
_OF_ONE_CALL: Final = frozenset({ApprovalState.APPROVED, ApprovalState.USED})


def subject_of(record: Decision | Command) -> str | None:
    """Return the id under which a record is looked up here: an approval request's, or that of another's record."""
    if isinstance(record, Decision):
        return _request(record)
    if record.kind is CommandKind.RECORD:
        return None if record.record is None else record.record.id
    return record.record_id if record.kind is CommandKind.HIDE else None


def put_interventions(
    kept: Kept, events: Sequence[ActionEvent], decisions: Sequence[Decision], commands: Sequence[Command]
) -> None:
    """Store new interventions and requests, after `records` and `sessions`."""
    # All decisions on a request are in the partition of its session, in order.
    requests = {d.approval.request_id: _request_row(d, d.approval) for d in decisions if d.approval is not None}
    kept.put("approvals", list(requests.values()))
    named = {name for command in commands if (name := subject_of(command)) is not None}
    touched = named | {
        row["id"]
        for column, ids in (
            ("event_id", {event.event_id for event in events if event.kind is Kind.PROPOSED}),
            ("session_id", {event.session_id for event in events if event.task is not None}),
            ("request_id", requests),
        )
        for row in kept.rows("interventions", (column, "in", sorted(ids)))
    }
    own = {d.decision_id for d in decisions} | {name.removeprefix(_OWN) for name in touched}
    rows = {row["id"]: row for row in (*_of_others(kept, sorted(named)), *_own(kept, sorted(own)))}
    hidden = {row["subject"] for row in _commands(kept, CommandKind.HIDE, sorted(rows))}
    kept.put("interventions", [row | {"hidden": name in hidden} for name, row in rows.items()])


def intervention_row(record: InterventionRecord) -> Row:
    """Return the columns of a record, except those of its decision."""
    level = record.context.get("level")
    return {
        **record.model_dump(mode="json", include=_SAME),
        "session_id": record.run_id,
        "level": level if isinstance(level, str) and level in _LEVELS else "",
        "cost_prevented_usd": record.cost_prevented_usd,
        "time_ms": record.timestamp,
        "event_id": None,
        "request_id": None,
        "hidden": False,
        "words": words_of(
            record.id, record.action_name, record.reason, record.description, record.run_id, record.agent_id,
            record.mission_id, record.policy_id, record.policy_name, record.blast_radius,
        ),
        "body": record.to_json().decode(),
    }  # fmt: skip


def _of_others(kept: Kept, record_ids: Sequence[str]) -> Iterable[Row]:
    """Yield the records of other guards; of those with the same id, the last."""
    for row in _commands(kept, CommandKind.RECORD, record_ids):
        command = wire.decode(Command, row["body"].encode())
        if command.record is not None:
            yield intervention_row(command.record)


def _own(kept: Kept, decision_ids: Sequence[str]) -> Iterable[Row]:
    """Yield the records of haltline's own decisions, with their call, goal and answer if known."""
    of_topic = ("topic", "=", "interventions")
    bodies = _in_order(kept.rows("records", ("decision_id", "in", decision_ids), of_topic))
    decisions = {d.decision_id: d for d in (wire.decode(Decision, body) for body in bodies) if d.detector != _ANSWERS}
    requests = sorted(filter(None, map(_request, decisions.values())))
    states = {row["request_id"]: row["state"] for row in kept.rows("approvals", ("request_id", "in", requests))}
    event_ids = sorted({d.event_id for d in decisions.values()})
    found = _in_order(kept.rows("records", ("event_id", "in", event_ids), ("topic", "=", "actions")))
    proposals = {event.event_id: event for event in map(wire.decode_event, found) if event.kind is Kind.PROPOSED}
    sessions = sorted({d.session_id for d in decisions.values()})
    goals = {row["session_id"]: row["goal"] for row in kept.rows("sessions", ("session_id", "in", sessions))}
    for decision in decisions.values():
        request_id = _request(decision)
        state = None if request_id is None else ApprovalState(states[request_id])
        if decision.approval is not None and decision.approval.behind and state in _OF_ONE_CALL:
            state = ApprovalState.PENDING  # a different call was approved
        record = record_of(
            decision,
            proposals.get(decision.event_id),
            resolution=None if state is None else _RESOLUTIONS.get(state),
            intent=goals.get(decision.session_id, ""),
        )
        if record is not None:
            context = record.context if state is None else {**record.context, "approval": state.value}
            yield intervention_row(record.model_copy(update={"context": context})) | {
                "event_id": decision.event_id,
                "request_id": request_id,
                "level": shown_level(decision.detector, decision.level),
            }


def _request_row(decision: Decision, approval: Approval) -> Row:
    return {
        "request_id": approval.request_id,
        "session_id": decision.session_id,
        "agent_id": decision.agent_id,
        "state": approval.state.value,
        "waits": approval.state.waits,
        "priority": approval.priority.rank,
        "since_ms": approval.since,
        "expires_ms": approval.expires,
        # From when on it counts as expired.
        "over_ms": approval.expires if approval.state.waits else 0 if approval.state is _EXPIRED else _NEVER_MS,
        "whole_session": approval.action == WHOLE_SESSION,
        "body": decision.to_json().decode(),
    }


def _request(decision: Decision) -> str | None:
    return None if decision.approval is None else decision.approval.request_id


def _commands(kept: Kept, kind: CommandKind, subjects: Sequence[str]) -> list[Mapping[str, Any]]:
    rows = kept.rows("records", ("subject", "in", subjects), ("kind", "=", kind.value))
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def _in_order(rows: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Return the bodies in the order of each partition, so that the last of duplicates is used."""
    return [row["body"].encode() for row in sorted(rows, key=lambda row: (row["partition"], row["offset"]))]
