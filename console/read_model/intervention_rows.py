"""Rows of interventions and approvals. Each is rebuilt from all its records when a new one arrives."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from haltline.console.read_model import tables
from haltline.console.read_model.store import parts, put
from haltline.console.read_model.tallies import hide, put_interventions
from haltline.console.read_model.text_search import words_of
from haltline.interventions.levels.default_levels import shown_level
from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Approval, Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.intervention_records import InterventionRecord
from haltline.streams.audit.records import records_of

_ANSWERS: Final = "approval"
_OWN: Final = "int_"
_MAX_ID: Final = 256
_SAME: Final = {*tables.interventions.c.keys()} & {*InterventionRecord.model_fields}
"""The columns that are as in the record."""
_LEVELS: Final = frozenset(level.value for level in Level)
_R: Final = tables.records.c
_I: Final = tables.interventions.c
_IDS: Final[Any] = bindparam("ids", expanding=True)
# Built once, not for each record.
_GOALS: Final = select(tables.sessions.c.session_id, tables.sessions.c.goal).where(
    tables.sessions.c.session_id.in_(_IDS)
)
_BY_EVENT: Final = select(_I.id).where(_I.event_id.in_(_IDS))
_BY_SESSION: Final = select(_I.id).where(_I.session_id.in_(_IDS))
_BY_REQUEST: Final = select(_I.id).where(_I.request_id.in_(_IDS))
_IN_ORDER: Final = (_R.partition, _R.offset)
_ABOUT: Final = (
    select(_R.body)
    .where(_R.subject == bindparam("of_subject"), _R.kind == bindparam("of_kind"))
    .order_by(_R.partition.desc(), _R.offset.desc())
    .limit(1)
)
_LAST_ANSWER: Final = _ABOUT.where(_R.detector == _ANSWERS)
_HIDDEN: Final = select(_R.subject).where(_R.subject.in_(_IDS), _R.kind == CommandKind.HIDE.value)


def subject_of(record: Decision | Command) -> str | None:
    """The id under which a record is looked up here: an approval request's, or that of an intervention's record."""
    if isinstance(record, Decision):
        return _request(record)
    if record.kind is CommandKind.RECORD:
        return None if record.record is None else record.record.id
    return record.record_id if record.kind is CommandKind.HIDE else None


def put_all(
    connection: Connection, events: Sequence[ActionEvent], decisions: Sequence[Decision], commands: Sequence[Command]
) -> set[str]:
    """Store new interventions, after `records` and `sessions`. Returns the sessions whose interventions changed."""
    _put_approvals(connection, sorted(filter(None, {_request(d) for d in decisions})))
    touched = {
        name
        for those, of in (
            (_BY_EVENT, {event.event_id for event in events if event.kind is Kind.PROPOSED}),
            (_BY_SESSION, {event.session_id for event in events if event.task is not None}),
            (_BY_REQUEST, {d.approval.request_id for d in decisions if d.approval and d.detector == _ANSWERS}),
        )
        for ids in parts(sorted(of))
        for name in connection.execute(those, {"ids": ids}).scalars()
    }
    external = {c.record.id for c in commands if c.kind is CommandKind.RECORD and c.record is not None}
    own = {d.decision_id for d in decisions} | {name.removeprefix(_OWN) for name in touched | external}
    rows = {row["id"]: row for row in (*_external(connection, external), *_own(connection, sorted(own)))}
    hidden = {name for ids in parts(sorted(rows)) for name in connection.execute(_HIDDEN, {"ids": ids}).scalars()}
    sessions = put_interventions(connection, list(rows.values()), hidden)
    for name in sorted({c.record_id for c in commands if c.kind is CommandKind.HIDE and c.record_id is not None}):
        hide(connection, name)
    return sessions


def intervention_row(record: InterventionRecord) -> dict[str, Any]:
    """The columns of a record, except those of its decision."""
    level = record.context.get("level")
    return {
        **record.model_dump(mode="json", include=_SAME),
        "session_id": record.run_id,
        "level": level if isinstance(level, str) and level in _LEVELS else "",
        "cost_prevented_usd": record.cost_prevented_usd,
        "time_ms": record.timestamp,
        "words": words_of(
            record.id, record.action_name, record.reason, record.description, record.run_id, record.agent_id,
            record.mission_id, record.policy_id, record.policy_name, record.blast_radius,
        ),
        "body": record.to_json().decode(),
    }  # fmt: skip


def _external(connection: Connection, record_ids: Iterable[str]) -> Iterable[dict[str, Any]]:
    """The records of other guards; of those with the same id, the last."""
    for name in sorted(record_ids):
        body = connection.execute(_ABOUT, {"of_subject": name, "of_kind": CommandKind.RECORD.value}).scalar()
        command = None if body is None else wire.decode(Command, body.encode())
        if command is not None and command.record is not None:
            yield intervention_row(command.record) | {"event_id": None, "request_id": None}


def _own(connection: Connection, decision_ids: Sequence[str]) -> Iterable[dict[str, Any]]:
    """The records of haltline's own decisions, with their call, goal and answer if known."""
    bodies = _bodies(connection, "interventions", "decision_id", decision_ids)
    decisions = {d.decision_id: d for d in (wire.decode(Decision, body) for body in bodies) if d.detector != _ANSWERS}
    answers = {
        request_id: [wire.decode(Decision, body.encode())]
        for request_id in sorted({d.approval.request_id for d in decisions.values() if d.approval is not None})
        if (body := connection.execute(_LAST_ANSWER, _decision_on(request_id)).scalar()) is not None
    }
    events = map(
        wire.decode_event, _bodies(connection, "actions", "event_id", [d.event_id for d in decisions.values()])
    )
    proposals = {event.event_id: event for event in events if event.kind is Kind.PROPOSED}
    goals: dict[str, str] = {}
    for ids in parts(sorted({d.session_id for d in decisions.values()})):
        goals |= dict(connection.execute(_GOALS, {"ids": ids}).all())
    for decision in decisions.values():
        request_id = _request(decision)
        for record in records_of([decision, *answers.get(request_id or "", ())], proposals, goals):
            ours = {"event_id": decision.event_id, "request_id": request_id}
            yield intervention_row(record) | ours | {"level": shown_level(decision.detector, decision.level)}


def _put_approvals(connection: Connection, request_ids: Iterable[str]) -> None:
    """Store the last decision on each request."""
    rows = []
    for request_id in request_ids:
        body = connection.execute(_ABOUT, _decision_on(request_id)).scalar()
        decision = None if body is None else wire.decode(Decision, body.encode())
        if decision is not None and decision.approval is not None:
            rows.append(_request_row(decision, decision.approval))
    put(connection, tables.approvals, rows)


def _request_row(decision: Decision, approval: Approval) -> dict[str, Any]:
    return {
        "request_id": approval.request_id,
        "session_id": decision.session_id,
        "agent_id": decision.agent_id,
        "state": approval.state.value,
        "priority": approval.priority.value,
        "since_ms": approval.since,
        "expires_ms": approval.expires,
        "said_ms": decision.time,
        "reason": decision.reason,
        "body": decision.to_json().decode(),
    }


def _request(decision: Decision) -> str | None:
    return None if decision.approval is None else decision.approval.request_id


def _decision_on(request_id: str) -> Mapping[str, str]:
    return {"of_subject": request_id, "of_kind": "decision"}


def _bodies(connection: Connection, topic: str, column: str, ids: Sequence[str]) -> list[bytes]:
    """The bodies in the order of each partition, so that the last of duplicates is used."""
    found: list[tuple[int, int, bytes]] = []
    for part in parts(sorted(set(ids))):
        statement = select(*_IN_ORDER, _R.body).where(_R.topic == topic, _R[column].in_(part))
        found += [(partition, offset, body.encode()) for partition, offset, body in connection.execute(statement)]
    return [body for *_, body in sorted(found)]
