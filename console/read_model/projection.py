"""From the rows of the audit, of topics or of its table, to the read model. The same row twice is once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import orjson
from sqlalchemy import Connection, bindparam, delete, func, select, update

from haltline.console.read_model import tables
from haltline.console.read_model.incidents import put_incidents, stop_before_incidents
from haltline.console.read_model.store import parts, put
from haltline.console.read_model.tallies import add_spent, hide, put_interventions
from haltline.console.read_model.text_search import words_of
from haltline.interventions.control import approval_requests
from haltline.interventions.state.effects import SessionRef
from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Approval, Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.intervention_records import InterventionRecord
from haltline.schemas.policy import Policy
from haltline.streams.audit.columns import Row
from haltline.streams.audit.records import records_of

_LOST: Final = "records.lost"
_ANSWERS: Final = "approval"
_MAX_WORDS: Final = 8_000
"""Characters of a session that a search looks in: its names first, then the targets as they came."""
_MINUTE_MS: Final = 60_000
_LEVELS: Final = frozenset(level.value for level in Level)
_POLICY: Final = Policy()
_APPROVALS: Final = _POLICY.operated.approvals
_R: Final = tables.records.c
_I: Final = tables.interventions.c
_S: Final = tables.sessions.c
_IDS: Final[Any] = bindparam("ids", expanding=True)
# Written once: to put a statement together costs as much as to run it.
_SESSIONS: Final = select(tables.sessions).where(_S.session_id.in_(_IDS))
_GOALS: Final = select(_S.session_id, _S.goal).where(_S.session_id.in_(_IDS))
_N: Final = tables.names.c
_NAMED: Final = select(_N.kind, _N.name, _N.last_ms).where(_N.kind.in_(("agent", "target", "tool")), _N.name.in_(_IDS))
_BY_EVENT: Final = select(_I.id).where(_I.event_id.in_(_IDS))
_BY_SESSION: Final = select(_I.id).where(_I.session_id.in_(_IDS))
_BY_REQUEST: Final = select(_I.id).where(_I.request_id.in_(_IDS))
_COUNT: Final = (
    update(tables.sessions)
    .where(_S.session_id.in_(_IDS))
    .values(interventions=select(func.count()).where(_I.session_id == _S.session_id).scalar_subquery())
)
_KNOWN: Final = select(_R.offset).where(
    _R.topic == bindparam("of_topic"),
    _R.partition == bindparam("of_partition"),
    _R.offset.between(bindparam("first"), bindparam("last")),
)


def take_in(connection: Connection, rows: Sequence[Row], prefix: str) -> None:
    """Adds rows that were not taken in yet; each with its `raw` record. In the caller's transaction."""
    rows = _new(connection, [row | {"topic": row["topic"].removeprefix(prefix)} for row in rows])
    of_topic: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("decode_error") is None and row["kind"] != _LOST:
            of_topic.setdefault(row["topic"], []).append(row)
    events = []
    for row in of_topic.get("actions", []):
        events.append(_event(row))
        row["raw"] = events[-1].to_json()  # a CloudEvent or a span is an event from here on
    decisions = []
    for row in of_topic.get("interventions", []):
        decisions.append(wire.decode(Decision, row["raw"]))
        if decisions[-1].incident is not None and decisions[-1].detector:
            row["incident_id"] = decisions[-1].incident.incident_id
    commands = [wire.decode(Command, row["raw"]) for row in of_topic.get("commands", [])]
    put(connection, tables.records, [_record(row) for row in rows], replace=False)
    _sessions(connection, events, decisions)
    _names(connection, events)
    _interventions(connection, events, decisions)
    _approvals(connection, decisions)
    _add_requests(connection, commands)
    put_incidents(connection, [stop_before_incidents(d) for d in decisions if _is_of_before(d)])
    put_incidents(connection, [wire.decode(IncidentRecord, row["raw"]) for row in of_topic.get("incidents", [])])
    _control(connection, of_topic.get("control", []))
    _commands(connection, commands)


def _new(connection: Connection, rows: Sequence[Row]) -> list[Row]:
    """Those whose place is not there yet, each place once."""
    places = {(row["topic"], row["partition"], row["offset"]): row for row in rows}
    known: set[tuple[str, int, int]] = set()
    by_partition: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in places:
        by_partition.setdefault((topic, partition), []).append(offset)
    for (topic, partition), offsets in by_partition.items():
        span = {"of_topic": topic, "of_partition": partition, "first": min(offsets), "last": max(offsets)}
        known |= {(topic, partition, offset) for offset in connection.execute(_KNOWN, span).scalars()}
    return [row for place, row in places.items() if place not in known]


def _is_of_before(decision: Decision) -> bool:
    """Whether it is a stop of a release that knew no incidents."""
    return decision.incident is not None and decision.incident_id is None and decision.level is Level.KILL


def _record(row: Row) -> dict[str, Any]:
    raw = row.get("raw") or b""
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "kind": row["kind"],
        "time_ms": row.get("event_time") or row.get("timestamp_ms") or row["ingested_at"],
        "session_id": row.get("session_id"),
        "agent_id": row.get("agent_id"),
        "event_id": row.get("event_id"),
        "decision_id": row.get("decision_id"),
        "detector": row.get("detector"),
        "severity": row.get("severity"),
        "incident_id": row.get("incident_id"),
        "summary": row["summary"],
        "body": raw.decode(errors="backslashreplace"),
    }


def _event(row: Row) -> ActionEvent:
    headers = [(name, (text or "").encode()) for name, text, *_ in orjson.loads(row.get("headers") or "[]")]
    return wire.decode_event(row["raw"], headers)


def _sessions(connection: Connection, events: Iterable[ActionEvent], decisions: Iterable[Decision]) -> None:
    """Adds up what events and decisions say of each session."""
    values: dict[str, dict[str, Any]] = {}
    targets: dict[str, set[str]] = defaultdict(set)
    spent: dict[tuple[int, str], float] = {}
    for event in events:
        one = values.setdefault(event.session_id, _session(event.session_id, event.time))
        one["first_ms"], one["last_ms"] = min(one["first_ms"], event.time), max(one["last_ms"], event.time)
        one["events"] += 1
        if event.usage is not None and event.usage.cost_usd:
            one["cost_usd"] += event.usage.cost_usd
            minute = event.time // _MINUTE_MS, event.session_id
            spent[minute] = spent.get(minute, 0.0) + event.usage.cost_usd
        one["ended"] = one["ended"] or event.kind is Kind.SESSION_ENDED
        named = {
            "agent_id": None if event.agent_id == "unknown" else event.agent_id,
            "mission_id": event.mission_id,
            "parent_session_id": event.parent_session_id,
            "goal": event.task.goal if event.task is not None else None,
        }
        one.update({name: value for name, value in named.items() if value})
        targets[event.session_id].update(event.targets)
    for decision in decisions:
        one = values.setdefault(decision.session_id, _session(decision.session_id, decision.time))
        one["last_ms"] = max(one["last_ms"], decision.time)
        one["hardest"] = max(one["hardest"], decision.level.rank)
    table = tables.sessions
    for ids in parts(sorted(values)):
        for row in connection.execute(_SESSIONS, {"ids": ids}).mappings():
            _add(values[row["session_id"]], dict(row))
            targets[row["session_id"]].update(row["words"].split("\n"))
    for one in values.values():
        agent_id = None if one["agent_id"] == "unknown" else one["agent_id"]
        of = sorted({target.lower() for target in targets[one["session_id"]]})
        one["words"] = words_of(one["session_id"], one["goal"], agent_id, one["mission_id"], *of)[:_MAX_WORDS]
    put(connection, table, [values[name] for name in sorted(values)])
    add_spent(connection, spent)


def _names(connection: Connection, events: Iterable[ActionEvent]) -> None:
    last: dict[tuple[str, str], int] = {}
    for event in events:
        named = [("agent", event.agent_id), ("tool", event.action or ""), *(("target", one) for one in event.targets)]
        for key in named:
            if key[1]:
                last[key] = max(event.time, last.get(key, 0))
    # Partitions are read in any order: what was seen last stays so.
    for ids in parts(sorted({name for _, name in last})):
        for kind, name, before_ms in connection.execute(_NAMED, {"ids": ids}):
            if (kind, name) in last:
                last[kind, name] = max(last[kind, name], before_ms)
    rows = [
        {"kind": kind, "name": name, "last_ms": at, "words": words_of(name)}
        for (kind, name), at in sorted(last.items())
    ]
    put(connection, tables.names, rows)


def _session(session_id: str, time_ms: int) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "agent_id": "unknown",
        "mission_id": None,
        "parent_session_id": None,
        "goal": "",
        "first_ms": time_ms,
        "last_ms": time_ms,
        "events": 0,
        "hardest": Level.ALLOW.rank,
        "cost_usd": 0.0,
        "ended": False,
    }


def _add(one: dict[str, Any], known: Mapping[str, Any]) -> None:
    one["first_ms"] = min(one["first_ms"], known["first_ms"])
    for name in ("last_ms", "hardest", "ended"):
        one[name] = max(one[name], known[name])
    for name in ("events", "cost_usd"):
        one[name] += known[name]
    if one["agent_id"] == "unknown":
        one["agent_id"] = known["agent_id"]
    for name in ("mission_id", "parent_session_id", "goal"):
        one[name] = one[name] or known[name]


def _interventions(connection: Connection, events: Sequence[ActionEvent], decisions: Sequence[Decision]) -> None:
    """Makes the records of the new decisions, and again those whose call, goal or answer was not known yet."""
    answers = {d.approval.request_id for d in decisions if d.approval is not None and d.detector == _ANSWERS}
    touched = {f"int_{d.decision_id}"[:256] for d in decisions}
    for those, of in (
        (_BY_EVENT, {event.event_id for event in events if event.kind is Kind.PROPOSED}),
        (_BY_SESSION, {event.session_id for event in events if event.task is not None}),
        (_BY_REQUEST, answers),
    ):
        for ids in parts(sorted(of)):
            touched |= set(connection.execute(those, {"ids": ids}).scalars())
    new = {d.decision_id: d for d in decisions if d.detector != _ANSWERS}
    again = _bodies(connection, "interventions", "decision_id", [i.removeprefix("int_") for i in touched])
    whole = {d.decision_id: d for d in (wire.decode(Decision, body) for body in again)} | new
    last = _last_answers(connection, [d for d in whole.values() if d.approval is not None], decisions)
    proposals = {
        event.event_id: event
        for event in (
            wire.decode_event(body)
            for body in _bodies(connection, "actions", "event_id", [d.event_id for d in whole.values()])
        )
        if event.kind is Kind.PROPOSED
    }
    goals: dict[str, str] = {}
    for ids in parts(sorted({d.session_id for d in whole.values()})):
        goals |= dict(connection.execute(_GOALS, {"ids": ids}).all())
    rows = []
    for decision in whole.values():
        for record in records_of([decision, *last.get(_request(decision), ())], proposals, goals):
            rows.append(intervention_row(record) | {"event_id": decision.event_id, "request_id": _request(decision)})
    put_interventions(connection, rows)
    _count(connection, {d.session_id for d in new.values()})


def intervention_row(record: InterventionRecord) -> dict[str, Any]:
    """The columns of a record, but for those of the decision that it is of."""
    level = record.context.get("level")
    return {
        "id": record.id,
        "session_id": record.run_id,
        "agent_id": record.agent_id,
        "type": record.type.value,
        "outcome": record.outcome.value,
        "action_name": record.action_name,
        "policy_id": record.policy_id,
        "policy_name": record.policy_name,
        "risk_level": record.risk_level.value,
        "level": level if isinstance(level, str) and level in _LEVELS else "",
        "cost_prevented_usd": record.cost_prevented_usd,
        "time_ms": record.timestamp,
        "words": words_of(
            record.id, record.action_name, record.reason, record.description, record.run_id, record.agent_id,
            record.mission_id, record.policy_id, record.policy_name, record.blast_radius,
        ),
        "body": record.to_json().decode(),
    }  # fmt: skip


def _request(decision: Decision) -> str | None:
    return None if decision.approval is None else decision.approval.request_id


def _last_answers(
    connection: Connection, requests: Iterable[Decision], new: Iterable[Decision]
) -> dict[str | None, list[Decision]]:
    """By request: the last decision that says what became of it."""
    waiting = {_request(d) for d in requests}
    answered = [d for d in new if d.detector == _ANSWERS]
    table = tables.approvals.c
    last: dict[str | None, list[Decision]] = {}
    for ids in parts(sorted(filter(None, waiting))):
        found = connection.execute(select(table.body).where(table.request_id.in_(ids))).scalars()
        answered = [
            d for d in (wire.decode(Decision, body.encode()) for body in found) if d.detector == _ANSWERS
        ] + answered
    for decision in answered:
        if _request(decision) in waiting:
            last[_request(decision)] = [decision]
    return last


def _approvals(connection: Connection, decisions: Iterable[Decision]) -> None:
    rows = {d.approval.request_id: _request_row(d, d.approval) for d in decisions if d.approval is not None}
    put(connection, tables.approvals, list(rows.values()))


def _add_requests(connection: Connection, commands: Iterable[Command]) -> None:
    """What an agent's own guard asks for waits from now on, also before a worker says so."""
    for command in commands:
        if command.request is not None and command.request_id is not None:
            ticket = approval_requests.ticket_of(command, command.request_id, command.request, _APPROVALS)
            decision = approval_requests.decision_on(
                ticket, SessionRef(command.id, command.request.agent_id), command, _POLICY
            )
            put(connection, tables.approvals, [_request_row(decision, ticket.as_approval())], replace=False)


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


def _control(connection: Connection, rows: Iterable[Row]) -> None:
    table = tables.control
    for row in rows:
        if row["kind"] == "cleared":
            connection.execute(delete(table).where(table.c.key == row["key"]))
        else:
            put(
                connection,
                table,
                [
                    {
                        "key": row["key"],
                        "scope": row["scope"],
                        "id": row["scope_id"],
                        "state": row["kind"],
                        "since_ms": row["event_time"],
                        "body": row["raw"].decode(),
                    }
                ],
            )


def _commands(connection: Connection, commands: Iterable[Command]) -> None:
    """Records that somebody else made, and such as are hidden."""
    for kind, of_kind in groupby(commands, lambda command: command.kind):
        if kind is CommandKind.RECORD:
            records = [command.record for command in of_kind if command.record is not None]
            none = {"event_id": None, "request_id": None}
            put_interventions(connection, [intervention_row(record) | none for record in records])
            _count(connection, {record.run_id for record in records})
        elif kind is CommandKind.HIDE:
            for record_id in {command.record_id for command in of_kind if command.record_id is not None}:
                hide(connection, record_id)


def _count(connection: Connection, session_ids: Iterable[str]) -> None:
    for ids in parts(sorted(session_ids)):
        connection.execute(_COUNT, {"ids": ids})


def _bodies(connection: Connection, topic: str, column: str, ids: Sequence[str]) -> list[bytes]:
    table = tables.records.c
    found: list[bytes] = []
    for part in parts(sorted(set(ids))):
        statement = select(table.body).where(table.topic == topic, table[column].in_(part))
        found += [body.encode() for body in connection.execute(statement).scalars()]
    return found
