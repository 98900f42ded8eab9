"""What is found in a changelog whose eras went down, and what comes back; logs are as older releases wrote them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.log_position import is_first
from haltline.streams.engine.session_state import MAX_SEEN, SessionState
from haltline.streams.operator.changelog_repair import Outcome, PartitionReading
from haltline.streams.runtime.changelog import (
    EPOCH_HEADER,
    OWNER_HEADER,
    TOPIC_IDS_HEADER,
    Claim,
    Epoch,
    Owner,
)
from haltline.streams.runtime.source_reader import Record
from haltline.streams.sessions import state_codec
from tests.cases import cases

ID = b"i" * 16


def state(*events: int, key: bytes = b"a", commands: int | None = None) -> bytes:
    """A session's state that includes the events at these offsets."""
    session = SessionState(key.decode())
    for event in events:
        is_first(session, f"{key!r}-{event}", MAX_SEEN)
        session.offsets["actions"] = event
        session.events += 1
    if commands is not None:
        session.offsets["commands"] = commands
    return state_codec.encode(session)


@dataclass
class Log:
    """A changelog partition."""

    records: list[Record] = field(default_factory=list)

    def old(self, era: int, key: bytes, value: bytes | None, *, since_ms: int = 0, logs: bytes = b"") -> "Log":
        """As releases before claims wrote it: the era under its own header."""
        headers = [(EPOCH_HEADER, Epoch(era, since_ms or era).encode()), *([(TOPIC_IDS_HEADER, logs)] if logs else [])]
        return self._add(key, value, headers)

    def claim(self) -> "Log":
        claim = Claim(ID)
        return self._add(claim.key, None, claim.headers)

    def release(self) -> "Log":
        marker = Claim(b"")
        return self._add(marker.key, None, marker.headers)

    def new(self, claim: int, key: bytes, value: bytes | None) -> "Log":
        """As the owner since the claim at this offset writes it."""
        return self._add(key, value, [(OWNER_HEADER, Owner(claim, ID).encode())])

    def _add(self, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> "Log":
        offset = len(self.records)
        self.records.append(Record("changelog", 3, offset, 1_000 + offset, key, value, headers))
        return self

    def compacted(self) -> "Log":
        newest = {record.key: record for record in self.records}
        return Log([record for record in self.records if newest[record.key] is record])


def read(log: Log | Iterable[Record]) -> PartitionReading:
    reading = PartitionReading(3)
    for record in log.records if isinstance(log, Log) else log:
        reading.take(record)
    return reading


def outcomes(log: Log) -> list[tuple[bytes, Outcome]]:
    return [(found.key, found.outcome) for found in read(log).report().states]


BEFORE, DROPPED, LATER = state(1, 2), state(1, 2, 3, 4), state(1, 2, 3, 4, 9)
OTHER = state(1, 2, 9)
BACK = [(b"a", Outcome.BRING_BACK)]
WENT_ON = [(b"a", Outcome.WENT_ON)]


@cases(
    "log, expected",
    {
        "the next owner's era is lower": (Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED), BACK),
        "a later owner wrote the state of before anew": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(311, b"a", BEFORE),
            BACK,
        ),
        "an owner of this release wrote the state of before anew": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).claim().new(2, b"a", BEFORE),
            BACK,
        ),
        "what counts went on without the dropped events": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(311, b"a", state(1, 2, 9)),
            WENT_ON,
        ),
        "each is further in another topic": (
            Log().old(282, b"a", state(1, 2, commands=7)).old(144, b"a", state(1, 2, 3, commands=5)),
            WENT_ON,
        ),
        "the dropped events were processed again": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(311, b"a", LATER),
            [],
        ),
        "one late record of a replaced owner": (
            Log().old(282, b"a", state(1)).old(300, b"a", state(1, 2)).old(282, b"a", DROPPED),
            [],
        ),
        "the owner had removed it again": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(144, b"a", None),
            [],
        ),
        "compaction has left the state of before": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(311, b"a", BEFORE).compacted(),
            [],
        ),
        "damage to its bytes": (Log().old(282, b"a", BEFORE).old(144, b"a", b"\x00"), [(b"a", Outcome.UNREADABLE)]),
        "a topic was recreated in between": (
            Log().old(282, b"a", BEFORE, logs=b"old...").old(144, b"a", DROPPED, logs=b"new..."),
            [(b"a", Outcome.OTHER_TOPICS)],
        ),
        "so many events later that the ids of before are forgotten": (
            Log().old(282, b"a", state(1)).old(144, b"a", state(*range(1, 100))),
            BACK,
        ),
        "the dropped state has the last event that counts, and not one before it": (
            Log().old(282, b"a", state(1, 2, 3, 8)).old(144, b"a", state(1, 2, 8, 9)),
            WENT_ON,
        ),
        "the events of the first of two owners are missing": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(173, b"a", OTHER).old(311, b"a", OTHER),
            WENT_ON,
        ),
        "no damage": (Log().old(1, b"a", BEFORE).old(30, b"a", DROPPED).claim().new(2, b"a", LATER), []),
    },
)
def test_what_becomes_of_a_dropped_state(log: Log, expected: list[tuple[bytes, Outcome]]) -> None:
    assert outcomes(log) == expected


def test_the_newest_state_that_was_dropped_comes_back_with_its_logs() -> None:
    log = Log().old(282, b"a", BEFORE, logs=b"logs..").old(144, b"a", state(1, 2, 3), logs=b"logs..")
    (found,) = read(log.old(173, b"a", DROPPED, logs=b"logs..")).report().states
    assert (found.dropped.value, found.dropped.logs, found.dropped.offset) == (DROPPED, b"logs..", 2)
    assert (found.dropped_offsets, found.counted_offsets, found.name) == ({"actions": 4}, {"actions": 2}, "a")


def test_the_state_of_an_agent_comes_back_too() -> None:
    def scope(*signals: int) -> bytes:
        of = ScopeState("agent", "cleaner")
        for signal in signals:
            is_first(of, str(signal), MAX_SEEN)
            of.offsets["signals"] = signal
        return state_codec.encode(of)

    (found,) = (
        read(Log().old(282, b"\xffagent:cleaner", scope(1)).old(144, b"\xffagent:cleaner", scope(1, 2))).report().states
    )
    assert (found.outcome, found.name) == (Outcome.BRING_BACK, "agent:cleaner")


def test_records_of_an_older_release_behind_a_claim_are_reported() -> None:
    for log, behind in (
        (Log().old(1, b"a", BEFORE).claim(), []),
        (Log().claim().old(1, b"a", BEFORE).old(1, b"b", BEFORE), [1, 2]),
        (Log().claim().old(1, b"a", BEFORE).release(), []),
        (Log().claim().release().old(1, b"a", BEFORE).claim().old(1, b"a", BEFORE), [4]),
    ):
        assert read(log).report().behind_claim == behind


def test_bytes_that_9484a9e_wrote_are_read_and_reported_by_owner() -> None:
    higher, lower = (
        (("haltline-epoch", bytes.fromhex(epoch)), ("haltline-logs", b"abcdef"))
        for epoch in ("000000000000011a0000019aae70817b", "00000000000000900000019aaea77148")
    )
    log = [
        Record("haltline-sessions-changelog", 3, 0, 5, b"a", BEFORE, higher),
        Record("haltline-sessions-changelog", 3, 1, 6, b"a", DROPPED, lower),
    ]
    report = read(log).report()
    (row,) = report.dropped
    assert (row.above, row.epoch) == (Epoch(282, 1_763_863_200_123), Epoch(144, 1_763_866_800_456))
    assert (row.late, row.first, row.last, row.records, len(row.keys), row.first_ms) == (False, 1, 1, 1, 1, 6)
    assert [(found.dropped.value, found.dropped.logs) for found in report.states] == [(DROPPED, b"abcdef")]
    again = Log().old(282, b"a", BEFORE).old(311, b"a", BEFORE).old(282, b"a", BEFORE, since_ms=282)
    assert [row.late for row in read(again).report().dropped] == [True]


class OldOwner:
    """An owner by the rules of releases before claims, which may pass over the last records in claiming."""

    def __init__(self, log: Log, *, passed_over: int, generation: int, taken_ms: int) -> None:
        self._log = log
        self._epoch = Epoch(0, 0)
        self.events: dict[bytes, tuple[int, ...]] = {}
        late = set()
        for record in log.records[: max(0, len(log.records) - passed_over)]:
            epoch = Epoch.of(record)
            assert epoch is not None
            assert record.key is not None
            if epoch < self._epoch:
                late.add(record.key)
                continue
            self._epoch = epoch
            late.discard(record.key)
            self.events[record.key] = events_in(record.value)
        self._epoch = Epoch(self._epoch.era + generation, taken_ms)
        for key in sorted(late):
            self._write(key)

    def process(self, key: bytes, event: int) -> None:
        included = self.events.get(key, ())
        if event > max(included, default=-1):
            self.events[key] = (*included, event)
            self._write(key)

    def _write(self, key: bytes) -> None:
        value = state(*self.events[key], key=key) if key in self.events else None
        self._log.old(self._epoch.era, key, value, since_ms=self._epoch.since_ms)


def events_in(value: bytes | None) -> tuple[int, ...]:
    """The events that a state of these tests includes, by the ids that it remembers."""
    if value is None:
        return ()
    session = state_codec.decode(value)
    return tuple(event for event in range(40) if remembers(session, event))


def remembers(session: SessionState, event: int) -> bool:
    return not is_first(SessionState("", seen=session.seen), f"{session.session_id.encode()!r}-{event}", MAX_SEEN + 1)


@st.composite
def damaged(draw: st.DrawFn) -> Log:
    """What owners one after the other leave, some of which had not read all when they claimed."""
    log, committed = Log(), 0
    keys = draw(st.lists(st.sampled_from([b"a", b"b"]), min_size=6, max_size=24))
    for number in range(1, draw(st.integers(2, 5)) + 1):
        passed_over = draw(st.sampled_from([0, 0, 1, 3, 8]))
        owner = OldOwner(log, passed_over=passed_over, generation=draw(st.integers(1, 3)), taken_ms=number)
        reached = draw(st.integers(committed, len(keys)))
        for event in range(committed, reached):
            owner.process(keys[event], event)
        committed = draw(st.integers(committed, reached))
    return log


@given(damaged())
def test_what_comes_back_has_all_that_counted_and_then_nothing_more_comes_back(log: Log) -> None:
    reading = read(log)
    back = {state.key: state.dropped.value for state in reading.report().having(Outcome.BRING_BACK)}
    counted = dict(reading.states.values)
    for key, value in back.items():
        assert set(events_in(value)) > set(events_in(counted.get(key)))
    claim = len(log.records)
    log.claim()
    for key, value in back.items():
        log.new(claim, key, value)
    again = read(log)
    assert again.states.values == counted | back
    assert again.report().having(Outcome.BRING_BACK) == []
