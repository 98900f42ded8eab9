"""What is there after a chaos run, against what must be there. Pure: every check returns its differences."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from benchmarks.chaos.expected import LogRecord, Place, Truth, without_clock
from haltline.schemas.control import ControlRecord
from haltline.schemas.dead_letter import DeadLetter
from haltline.schemas.decisions import Decision
from haltline.schemas.wire import decode
from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import SCOPE_KEY, decoded


@dataclass(frozen=True)
class Check:
    """One thing that was compared."""

    name: str
    found: str
    """How much was compared, for people."""
    differences: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Nothing differs."""
        return not self.differences


def check_counts(events_by_session: Mapping[str, int], states: Mapping[str, Any]) -> Check:
    """Every session counts each of its events once, by what the load says it produced."""
    differences = [
        f"{session}: expected {expected} events, got {states.get(session, {}).get('events')}"
        for session, expected in events_by_session.items()
        if states.get(session, {}).get("events") != expected
    ]
    found = f"{len(events_by_session):,} sessions, {sum(events_by_session.values()):,} events"
    return Check("every session's count is exact", found, tuple(differences))


def check_states(truth: Truth, states: Mapping[str, Any], name: str = "every state is the pure core's") -> Check:
    """The whole state of every session is that of the pure core, but for what its worker's clock has set."""
    expected, actual = (
        {key: _without_ticks(state) for key, state in all_states.items()} for all_states in (truth.states, states)
    )
    differences = tuple(_mapping_differences(expected, actual))
    return Check(name, f"{len(states):,} states", differences)


def check_decisions(truth: Truth, records: Iterable[LogRecord]) -> Check:
    """Every decision is there, as the pure core makes it; repeated ones have the same id and say the same."""
    actual = [without_clock(decode(Decision, record.value)) for record in records]
    return _check_by_id("every decision is there, and no other", "decision_id", truth.decisions, actual)


def check_detections(truth: Truth, records: Iterable[LogRecord]) -> Check:
    """As for decisions."""
    actual = [orjson.loads(record.value or b"{}") for record in records]
    return _check_by_id("every detection is there, and no other", "detection_id", truth.detections, actual)


def check_signals(truth: Truth, records: Iterable[LogRecord]) -> Check:
    """As for decisions."""
    actual = [orjson.loads(record.value or b"{}") for record in records]
    return _check_by_id("every signal is there, and no other", "signal_id", truth.signals, actual)


def check_control(truth: Truth, records: Iterable[LogRecord]) -> Check:
    """What holds now is what the pure core says."""
    holds: dict[str, dict[str, Any]] = {}
    for record in records:
        key = (record.key or b"").decode()
        if record.value is None:
            holds.pop(key, None)
        else:
            holds[key] = without_clock(decode(ControlRecord, record.value))
    return Check(
        "the control topic holds what must hold",
        f"{len(holds):,} entries",
        tuple(_mapping_differences(truth.control, holds)),
    )


def check_dead_letters(
    truth: Truth,
    sources: Mapping[Place, LogRecord],
    records: Iterable[LogRecord],
    *,
    name_of: Callable[[str, LogRecord], str] = lambda topic, _: topic,
) -> Check:
    """Every bad record is kept whole with its reason and place; a redelivery may repeat it.

    `name_of` says which topic one is about by its name, where there were several of one name.
    """
    differences: list[str] = []
    seen: Counter[Place] = Counter()
    for record in records:
        letter = DeadLetter.from_record(record.key, record.value, record.headers)
        place = (name_of(letter.topic, record), letter.partition, letter.offset)
        seen[place] += 1
        if place not in truth.dead:
            differences.append(f"{place}: expected no dead letter, got one: {letter.reason}, {letter.detail:.200}")
        elif letter.reason is not truth.dead[place]:
            differences.append(f"{place}: expected {truth.dead[place]}, got {letter.reason}")
        elif (letter.key, letter.raw, [*letter.record_headers]) != (
            sources[place].key,
            sources[place].value,
            [*sources[place].headers],
        ):
            differences.append(f"{place}: expected the record's own bytes and headers, got others")
    differences += [f"{place}: expected a dead letter, got none" for place in truth.dead.keys() - seen.keys()]
    repeated = seen.total() - len(seen)
    return Check("every bad record is kept", f"{len(truth.dead):,}, {repeated:,} repeated", tuple(differences))


def check_audit(
    rows: Iterable[tuple[Place, bytes | None]],
    log: Mapping[Place, bytes | None],
    name: str = "the audit table holds each record once",
) -> Check:
    """The table holds each record of each topic once, with its bytes."""
    seen: Counter[Place] = Counter()
    differences: list[str] = []
    for place, raw in rows:
        seen[place] += 1
        if place not in log:
            differences.append(f"{place}: expected no row, got one")
        elif raw != log[place]:
            differences.append(f"{place}: expected the record's own bytes, got others")
    differences += [f"{place}: expected one row, got {count}" for place, count in seen.items() if count > 1]
    differences += [f"{place}: expected one row, got none" for place in log.keys() - seen.keys()]
    return Check(name, f"{seen.total():,} rows", tuple(differences))


def check_lag(committed: int, end: int) -> Check:
    """Everything is committed."""
    differences = () if committed == end else (f"expected {end} records committed, got {committed}",)
    return Check("lag is zero", f"{end:,} records", differences)


def check_ready(processes: int, not_ready: Sequence[str]) -> Check:
    """Whatever was done to it, every process says in the end that it is ready."""
    differences = tuple(f"{name}: expected it to say that it is ready, got something else" for name in not_ready)
    return Check("every process is ready again", f"{processes} processes", differences)


def check_ends(codes: Mapping[str, int]) -> Check:
    """At the end every process stops cleanly."""
    differences = tuple(f"{name}: expected exit status 0, got {code}" for name, code in codes.items() if code != 0)
    return Check("every process stops cleanly", f"{len(codes)} processes", differences)


def _shown(key: bytes, value: bytes) -> dict[str, Any]:
    return state_codec.shown(decoded(key, value))


def last_states(
    records: Iterable[LogRecord], read: Callable[[bytes, bytes], dict[str, Any]] = _shown
) -> dict[str, Any]:
    """The last state of every session and scope, by the rules by which a worker reads its changelog."""
    slices: dict[int, PartitionState] = {}
    for record in records:
        part = slices.setdefault(record.partition, PartitionState(record.partition))
        part.apply([record], begins=part.position, following=record.offset + 1)
    states = ((key, value) for part in slices.values() for key, value in part.values.items())
    return {key.removeprefix(SCOPE_KEY).decode(): read(key, value) for key, value in states}


def _without_ticks(state: dict[str, Any]) -> dict[str, Any]:
    """A state without deadlines: they begin at the first tick after a kill or a request for approval."""
    standing = dict(state.get("standing") or {})
    killed = standing.get("killed")
    if killed is not None:
        set_by_ticks = ("issued", "sent_ms", "due_ms", "escalated_at_ms")
        standing["killed"] = {name: killed[name] for name in killed if name not in set_by_ticks}
    approvals = standing.get("approvals") or {}
    standing["approvals"] = {key: {**request, "due_ms": 0} for key, request in approvals.items()}
    return {**{name: value for name, value in state.items() if name != "due_ms"}, "standing": standing}


def _check_by_id(name: str, id_field: str, expected: Mapping[str, Any], actual: list[dict[str, Any]]) -> Check:
    by_id: dict[str, Any] = {}
    differences: list[str] = []
    for record in actual:
        first = by_id.setdefault(record[id_field], record)
        if first != record:
            differences.append(f"{record[id_field]}: repeated, and says something else: {first} and {record}")
    differences += _mapping_differences(expected, by_id)
    return Check(name, f"{len(by_id):,}, {len(actual) - len(by_id):,} repeated", tuple(differences))


def _mapping_differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    differences = [f"{key}: expected, did not come: {expected[key]!r:.300}" for key in expected.keys() - actual.keys()]
    differences += [f"{key}: got, was not expected: {actual[key]!r:.300}" for key in actual.keys() - expected.keys()]
    for key in expected.keys() & actual.keys():
        if expected[key] != actual[key]:
            fields = sorted(
                name
                for name in expected[key].keys() | actual[key].keys()
                if expected[key].get(name) != actual[key].get(name)
            )
            pairs = ", ".join(
                f"{name} expected {expected[key].get(name)!r:.120} got {actual[key].get(name)!r:.120}"
                for name in fields
            )
            differences.append(f"{key}: {pairs}")
    return differences
