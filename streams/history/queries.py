"""What the rows mean: what is in force, what waits, what is open, and what needs a person.

The console asks its database, the command line the records that it has read into memory: the answers are the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from haltline.schemas import wire
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.incidents import IncidentRecord
from haltline.streams.history.incident_report import Report, stop_of, whole
from haltline.streams.history.kept import Kept, Where

LIVE_MS: Final = 15 * 60 * 1000
"""A session counts as live if it was active within this time and has not ended."""
DAY_MS: Final = 24 * 3600 * 1000
OPEN: Final[Where] = ("open", "=", True)
"""Of incidents: not resolved."""
WORST_FIRST: Final = ("-open", "-severity", "-level", "-last_ms", "incident_id")
URGENT_FIRST: Final = ("-whole_session", "-priority", "expires_ms", "since_ms")
"""Held sessions, then the most urgent; of one priority those that expire first."""
_OURS: Final = "haltline"
_MAX_TARGETS: Final = 8
_MAX_TARGET_CHARS: Final = 200
_MAX_REPORTED: Final = 20_000
"""The most events, and decisions, of a session in the report of an incident."""


def live(now_ms: int) -> tuple[Where, ...]:
    """Of sessions: those that are live."""
    return ("last_ms", ">", now_ms - LIVE_MS), ("ended", "=", False)


def waiting(now_ms: int) -> tuple[Where, ...]:
    """Of approvals: those that can be answered now."""
    return ("waits", "=", True), ("over_ms", ">", now_ms)


@dataclass(frozen=True, kw_only=True)
class NeedsPerson:
    """What a person has to look at now, without what belongs to a snoozed incident."""

    held: tuple[str, ...]
    """Sessions that are held."""
    killed: tuple[str, ...]
    """Sessions that haltline killed within the last day, and about which no operator has sent a command since."""
    waiting: tuple[str, ...]
    """Requests that can be answered now, the most urgent first."""
    incidents: int
    """Incidents that are not resolved."""
    snoozed: int
    """Incidents that are snoozed."""


def needs_person(kept: Kept, now_ms: int) -> NeedsPerson:
    """Return what needs a person."""
    of_sessions = kept.rows("control", ("scope", "=", ScopeKind.SESSION.value), order=("since_ms", "key"))
    snoozed = kept.rows("incidents", OPEN, ("snoozed_ms", ">", now_ms))
    silent = {row["session_id"] for row in snoozed if row["scope"] == ScopeKind.SESSION.value}
    held = [row["id"] for row in of_sessions if row["state"] == ControlState.FROZEN.value and row["id"] not in silent]
    killed = {
        row["id"]: row["since_ms"]
        for row in of_sessions
        if row["state"] == ControlState.KILLED.value
        and row["since_ms"] > now_ms - DAY_MS
        and orjson.loads(row["body"]).get("by", _OURS) == _OURS
    }
    for row in kept.rows("records", ("session_id", "in", list(killed)), ("topic", "=", "commands")):
        by = orjson.loads(row["body"]).get("by")  # haltline's own is the kill itself, of a rule across sessions
        if by != _OURS and row["time_ms"] >= killed.get(row["session_id"], row["time_ms"] + 1):
            del killed[row["session_id"]]
    of_snoozed = {row["request_id"] for row in snoozed}
    requests = kept.rows("approvals", *waiting(now_ms), order=URGENT_FIRST)
    return NeedsPerson(
        held=tuple(held),
        killed=tuple(killed),
        waiting=tuple(row["request_id"] for row in requests if row["request_id"] not in of_snoozed),
        incidents=kept.count("incidents", OPEN) - len(snoozed),
        snoozed=len(snoozed),
    )


def incidents(kept: Kept, *where: Where, skip: int = 0, limit: int | None = None) -> list[IncidentRecord]:
    """Return incidents: open ones first, then by severity, level and last decision."""
    rows = kept.rows("incidents", *where, order=WORST_FIRST, skip=skip, limit=limit)
    return [IncidentRecord.model_validate_json(row["body"]) for row in rows]


def incidents_named(kept: Kept, name: str) -> list[IncidentRecord]:
    """Return the incident with this id, else those that begin so; of the id of a stop's report, the stop's incident."""
    found = incidents(kept, ("incident_id", "=", name)) or incidents(kept, ("incident_id", "begins", name))
    if not found:
        stops = {row["decision_id"] for row in kept.rows("records", ("incident_id", "=", name))}
        found = incidents(kept, ("decision_id", "in", sorted(stops)))[:1]
    return found


def revisions(kept: Kept, incident_id: str) -> list[IncidentRecord]:
    """Return all published revisions of an incident in order, each once."""
    rows = kept.rows("records", ("topic", "=", "incidents"), ("event_id", "=", incident_id))
    records = (IncidentRecord.model_validate_json(row["body"]) for row in rows)
    by_revision = {record.revision: record for record in records}
    return [record for _, record in sorted(by_revision.items())]


def report(kept: Kept, incident: IncidentRecord | None, session_id: str) -> Report | None:
    """Return the report of an incident, or without one that of the session's last kill; None: nothing is known."""
    until = () if incident is None else (("time_ms", "<=", incident.changed_at),)

    def bodies(topic: str) -> list[bytes]:
        of_session = (("session_id", "=", session_id), ("topic", "=", topic), *until)
        newest = kept.rows("records", *of_session, order=("-time_ms", "-offset"), limit=_MAX_REPORTED)
        return [row["body"].encode() for row in reversed(newest)]

    decisions = {one.decision_id: one for one in (wire.decode(Decision, body) for body in bodies("interventions"))}
    stop = stop_of(list(decisions.values()), incident)
    return None if stop is None else whole(stop, list(decisions.values()), events_of(bodies("actions")))


def events_of(bodies: Iterable[bytes]) -> list[ActionEvent]:
    """Return the events with these bodies, each once, without those that cannot be read."""
    events: dict[str, ActionEvent] = {}
    for body in bodies:
        try:
            event = wire.decode_event(body)
        except wire.InvalidRecord:
            continue  # it was a dead letter originally, too
        events.setdefault(event.event_id, event)
    return list(events.values())


def decisions_of(kept: Kept, decision_ids: Iterable[str]) -> dict[str, Decision]:
    """Return the decisions with these ids, by id."""
    rows = kept.rows("records", ("decision_id", "in", sorted(set(decision_ids))))
    # The topic is compared here: in SQL, SQLite would scan all decisions instead of looking these up.
    bodies = (row["body"].encode() for row in rows if row["topic"] == "interventions")
    return {decision.decision_id: decision for decision in (wire.decode(Decision, body) for body in bodies)}


def targets_of(kept: Kept, decisions: Sequence[Decision]) -> dict[str, list[str]]:
    """Return, by decision id, the targets of the calls in its evidence, in order, as far as those are known.

    A call without targets gives its simple arguments as `name=value`; without these, its tool.
    """
    evidence = {one.decision_id: [at.event_id for at in one.evidence] for one in decisions}
    ids = sorted({name for of in evidence.values() for name in of})
    rows = kept.rows("records", ("topic", "=", "actions"), ("event_id", "in", ids))
    known = {row["event_id"]: _acts_on(orjson.loads(row["body"])) for row in rows}
    return {
        name: list(dict.fromkeys(target for one in of for target in known.get(one, ())))[:_MAX_TARGETS]
        for name, of in evidence.items()
    }


def _acts_on(event: Mapping[str, Any]) -> list[str]:
    if event.get("targets"):
        return [str(target) for target in event["targets"]]
    simple = {name: value for name, value in (event.get("args") or {}).items() if isinstance(value, str | int | float)}
    named = [f"{name}={value}"[:_MAX_TARGET_CHARS] for name, value in simple.items()]
    return named or ([f"tool={event['action']}"] if event.get("action") else [])
