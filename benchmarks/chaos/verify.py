"""The checks after a chaos run: actual against expected content. Pure: every check returns its differences."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from benchmarks.chaos.expected import Place, Truth, without_clock
from benchmarks.chaos.history import state_name, take
from haltline.schemas.control import ControlRecord
from haltline.schemas.dead_letter import DeadLetter
from haltline.schemas.decisions import Decision
from haltline.schemas.wire import decode
from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import CLAIM_KEY, PartitionState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import decoded

MISSING: Final = "missing"
UNEXPECTED: Final = "unexpected"
UNREADABLE: Final = "unreadable"


class Difference(NamedTuple):
    """One difference from the expected content."""

    about: str
    """The subject: a session, an id, a table, a place in the log, or a process."""
    text: str
    kind: str = "different"
    """A short label for counting: missing, unexpected, or the fields that differ."""

    def __str__(self) -> str:
        return f"{self.about}: {self.text}"


class Check(NamedTuple):
    """The result of one comparison."""

    name: str
    found: str
    """The amount compared, as text."""
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    """Explained deviations, which are not differences."""

    @property
    def ok(self) -> bool:
        """Return whether nothing differs."""
        return not self.differences


def check_counts(
    events_by_session: Mapping[str, int], states: Mapping[str, Any], name: str = "every session's count is exact"
) -> Check:
    """Check that every session counts each event of the load once."""
    differences = [
        Difference(session, f"expected {expected} events, got {found}", MISSING if found is None else "events")
        for session, expected in events_by_session.items()
        if (found := states.get(session, {}).get("events")) != expected
    ]
    found = f"{len(events_by_session):,} sessions, {sum(events_by_session.values()):,} events"
    return Check(name, found, tuple(differences))


def check_states(truth: Truth, states: Mapping[str, Any], name: str = "every state is the pure core's") -> Check:
    """Check that the state of every session is that of the pure core, except times set by the worker's clock."""
    expected, actual = (
        {key: without_ticks(state) for key, state in all_states.items()} for all_states in (truth.states, states)
    )
    differences = tuple(_mapping_differences(expected, actual))
    return Check(name, f"{len(states):,} states", differences)


def check_decisions(truth: Truth, records: Iterable[LogRecord]) -> Check:
    """Check that the decisions are those of the pure core; repeated ones have the same id and content."""
    actual = [without_clock(decode(Decision, record.value)) for record in records]
    return _check_by_id("every decision is there, and no other", "decision_id", truth.decisions, actual)


def check_detections(truth: Truth, records: Iterable[LogRecord]) -> Check:
    """Like `check_decisions`."""
    actual = [orjson.loads(record.value or b"{}") for record in records]
    return _check_by_id("every detection is there, and no other", "detection_id", truth.detections, actual)


def check_signals(truth: Truth, records: Iterable[LogRecord]) -> Check:
    """Like `check_decisions`."""
    actual = [orjson.loads(record.value or b"{}") for record in records]
    return _check_by_id("every signal is there, and no other", "signal_id", truth.signals, actual)


def check_control(
    truth: Truth, records: Iterable[LogRecord], name: str = "the control topic holds the entries in force"
) -> Check:
    """Check that the entries in force are those of the pure core."""
    holds: dict[str, dict[str, Any]] = {}
    for record in records:
        key = (record.key or b"").decode()
        if record.value is None:
            holds.pop(key, None)
        else:
            holds[key] = without_clock(decode(ControlRecord, record.value))
    return Check(name, f"{len(holds):,} entries", tuple(_mapping_differences(truth.control, holds)))


def check_dead_letters(
    truth: Truth,
    sources: Mapping[Place, LogRecord],
    records: Iterable[LogRecord],
    *,
    name_of: Callable[[str, LogRecord], str] = lambda topic, _: topic,
) -> Check:
    """Check that every bad record is kept unchanged with its reason and place; a redelivery may repeat it.

    `name_of` returns the topic that a dead letter is about, when several topics had the same name.
    """
    differences: list[Difference] = []
    seen: Counter[Place] = Counter()
    for record in records:
        letter = DeadLetter.from_record(record.key, record.value, record.headers)
        place = (name_of(letter.topic, record), letter.partition, letter.offset)
        seen[place] += 1
        if place not in truth.dead:
            text = f"expected no dead letter, got one: {letter.reason}, {letter.detail:.200}"
            differences.append(_at(place, text, UNEXPECTED))
        elif letter.reason is not truth.dead[place]:
            differences.append(_at(place, f"expected {truth.dead[place]}, got {letter.reason}", "other reason"))
        elif (letter.key, letter.raw, [*letter.record_headers]) != (
            sources[place].key,
            sources[place].value,
            [*sources[place].headers],
        ):
            differences.append(_at(place, "expected the record's own bytes and headers, got others", "other bytes"))
    missing = truth.dead.keys() - seen.keys()
    differences += [_at(place, "expected a dead letter, got none", MISSING) for place in sorted(missing)]
    repeated = seen.total() - len(seen)
    return Check("every bad record is kept", f"{len(truth.dead):,}, {repeated:,} repeated", tuple(differences))


def check_audit(
    rows: Iterable[tuple[Place, bytes | None]],
    log: Mapping[Place, bytes | None],
    name: str = "the audit table holds each record once",
) -> Check:
    """Check that the table holds each record of each topic once, with its bytes."""
    seen: Counter[Place] = Counter()
    differences: list[Difference] = []
    for place, raw in rows:
        seen[place] += 1
        if place not in log:
            differences.append(_at(place, "expected no row, got one", UNEXPECTED))
        elif raw != log[place]:
            differences.append(_at(place, "expected the record's own bytes, got others", "other bytes"))
    repeated = {place: count for place, count in seen.items() if count > 1}
    differences += [_at(place, f"expected one row, got {count}", "repeated") for place, count in repeated.items()]
    differences += [_at(place, "expected one row, got none", MISSING) for place in sorted(log.keys() - seen.keys())]
    return Check(name, f"{seen.total():,} rows", tuple(differences))


def check_lag(committed: int, end: int) -> Check:
    """Check that everything is committed."""
    text = f"expected {end} records committed, got {committed}"
    differences = () if committed == end else (Difference("both groups", text),)
    return Check("lag is zero", f"{end:,} records", differences)


def check_ready(processes: int, not_ready: Sequence[str]) -> Check:
    """Check that every process is ready at the end."""
    differences = tuple(Difference(name, "expected it to be ready, got another status") for name in not_ready)
    return Check("every process is ready again", f"{processes} processes", differences)


def check_ends(codes: Mapping[str, int]) -> Check:
    """Check that every process stops cleanly."""
    wrong = {name: code for name, code in codes.items() if code != 0}
    differences = tuple(Difference(name, f"expected exit status 0, got {code}") for name, code in wrong.items())
    return Check("every process stops cleanly", f"{len(codes)} processes", differences)


def shown(key: bytes, value: bytes) -> dict[str, Any]:
    """Return a state of the changelog as JSON, or the reason why it cannot be read."""
    try:
        return state_codec.shown(decoded(key, value))
    except state_codec.UnreadableState as why:
        return {UNREADABLE: str(why)}


def last_states(records: Iterable[LogRecord], read: Callable[[bytes, bytes], dict[str, Any]] = shown) -> dict[str, Any]:
    """Return the last state of every session and scope, read as a worker reads its changelog."""
    slices: dict[int, PartitionState] = {}
    for record in records:
        take(slices.setdefault(record.partition, PartitionState(record.partition)), record)
    states = ((key, value) for part in slices.values() for key, value in part.values.items())
    return {state_name(key): read(key, value) for key, value in states if not key.startswith(CLAIM_KEY)}


def without_ticks(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without deadlines, which are set at the first tick after a kill or a request for approval."""
    standing = dict(state.get("standing") or {})
    killed = standing.get("killed")
    if killed is not None:
        set_by_ticks = ("issued", "sent_ms", "due_ms", "escalated_at_ms")
        standing["killed"] = {name: killed[name] for name in killed if name not in set_by_ticks}
    approvals = standing.get("approvals") or {}
    standing["approvals"] = {key: {**request, "due_ms": 0} for key, request in approvals.items()}
    return {**{name: value for name, value in state.items() if name != "due_ms"}, "standing": standing}


def _at(place: Place, text: str, kind: str) -> Difference:
    return Difference("{}-{} offset {}".format(*place), text, kind)


def _check_by_id(name: str, id_field: str, expected: Mapping[str, Any], actual: list[dict[str, Any]]) -> Check:
    by_id: dict[str, Any] = {}
    differences: list[Difference] = []
    for record in actual:
        first = by_id.setdefault(record[id_field], record)
        if first != record:
            text = f"repeated, with other content: {first} and {record}"
            differences.append(Difference(record[id_field], text, "repeated with other content"))
    differences += _mapping_differences(expected, by_id)
    return Check(name, f"{len(by_id):,}, {len(actual) - len(by_id):,} repeated", tuple(differences))


def _mapping_differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[Difference]:
    differences = [
        Difference(key, f"expected, is missing: {expected[key]!r:.300}", MISSING)
        for key in sorted(expected.keys() - actual.keys())
    ]
    differences += [
        Difference(key, f"got, was not expected: {actual[key]!r:.300}", UNEXPECTED)
        for key in sorted(actual.keys() - expected.keys())
    ]
    for key in sorted(expected.keys() & actual.keys()):
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
            differences.append(Difference(key, pairs, f"differ in {', '.join(fields)}"))
    return differences
