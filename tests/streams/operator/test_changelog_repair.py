"""Detection and repair of a changelog whose eras went down; the logs are as older releases wrote them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from haltline.streams.engine.log_position import is_first
from haltline.streams.engine.session_state import MAX_SEEN, SessionState
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.operator.changelog_repair import Outcome, PartitionReading
from haltline.streams.runtime.changelog import EPOCH_HEADER, OWNER_HEADER, TOPIC_IDS_HEADER, Claim, Epoch, Owner
from haltline.streams.sessions import state_codec
from tests.builders import cases

ID = b"i" * 16


def state(*events: int) -> bytes:
    """A session's state that includes the events at these offsets."""
    session = SessionState("a")
    for event in events:
        is_first(session, str(event), MAX_SEEN)
        session.offsets["actions"] = event
        session.events += 1
    return state_codec.encode(session)


@dataclass
class Log:
    """A changelog partition."""

    records: list[LogRecord] = field(default_factory=list)

    def old(self, era: int, key: bytes, value: bytes | None, *, since_ms: int = 0, logs: bytes = b"") -> "Log":
        """A record of releases before claims: the era has its own header."""
        headers = [(EPOCH_HEADER, Epoch(era, since_ms or era).encode()), *([(TOPIC_IDS_HEADER, logs)] if logs else [])]
        return self._add(key, value, headers)

    def claim(self) -> "Log":
        claim = Claim(ID)
        return self._add(claim.key, None, claim.headers)

    def new(self, claim: int, key: bytes, value: bytes | None) -> "Log":
        """A record of the owner since the claim at this offset."""
        return self._add(key, value, [(OWNER_HEADER, Owner(claim, ID).encode())])

    def _add(self, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> "Log":
        offset = len(self.records)
        self.records.append(LogRecord("changelog", 3, offset, 1_000 + offset, key, value, headers))
        return self


def read(log: Log | Iterable[LogRecord]) -> PartitionReading:
    reading = PartitionReading(3)
    for record in log.records if isinstance(log, Log) else log:
        reading.take(record)
    return reading


BEFORE, DROPPED, LATER = state(1, 2), state(1, 2, 3, 4), state(1, 2, 3, 4, 9)
OTHER = state(1, 2, 9)
BACK = [(b"a", Outcome.BRING_BACK)]
WENT_ON = [(b"a", Outcome.WENT_ON)]


@cases(
    "log, expected",
    {
        "the next owner's era is lower": (Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED), BACK),
        "an owner of this release wrote the state of before anew": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).claim().new(2, b"a", BEFORE),
            BACK,
        ),
        "what counts went on without the dropped events": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(311, b"a", state(1, 2, 9)),
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
        "damage to its bytes": (Log().old(282, b"a", BEFORE).old(144, b"a", b"\x00"), [(b"a", Outcome.UNREADABLE)]),
        "a topic was recreated in between": (
            Log().old(282, b"a", BEFORE, logs=b"old...").old(144, b"a", DROPPED, logs=b"new..."),
            [(b"a", Outcome.OTHER_TOPICS)],
        ),
        "the events of the first of two owners are missing": (
            Log().old(282, b"a", BEFORE).old(144, b"a", DROPPED).old(173, b"a", OTHER).old(311, b"a", OTHER),
            WENT_ON,
        ),
        "no damage": (Log().old(1, b"a", BEFORE).old(30, b"a", DROPPED).claim().new(2, b"a", LATER), []),
    },
)
def test_what_becomes_of_a_dropped_state(log: Log, expected: list[tuple[bytes, Outcome]]) -> None:
    assert [(found.key, found.outcome) for found in read(log).report().states] == expected


def test_the_newest_dropped_state_comes_back_with_its_logs_also_of_bytes_that_9484a9e_wrote() -> None:
    log = Log().old(282, b"a", BEFORE, logs=b"logs..").old(144, b"a", state(1, 2, 3), logs=b"logs..")
    (found,) = read(log.old(173, b"a", DROPPED, logs=b"logs..")).report().states
    assert (found.dropped.value, found.dropped.logs, found.dropped.offset) == (DROPPED, b"logs..", 2)
    assert (found.dropped_offsets, found.counted_offsets, found.name) == ({"actions": 4}, {"actions": 2}, "a")
    higher, lower = (
        (("haltline-epoch", bytes.fromhex(epoch)), ("haltline-logs", b"abcdef"))
        for epoch in ("000000000000011a0000019aae70817b", "00000000000000900000019aaea77148")
    )
    bytes_of_then = [
        LogRecord("haltline-sessions-changelog", 3, 0, 5, b"a", BEFORE, higher),
        LogRecord("haltline-sessions-changelog", 3, 1, 6, b"a", DROPPED, lower),
    ]
    report = read(bytes_of_then).report()
    (row,) = report.dropped
    assert (row.above, row.epoch) == (Epoch(282, 1_763_863_200_123), Epoch(144, 1_763_866_800_456))
    assert (row.late, row.first, row.last, row.records, len(row.keys), row.first_ms) == (False, 1, 1, 1, 1, 6)
    assert [(found.dropped.value, found.dropped.logs) for found in report.states] == [(DROPPED, b"abcdef")]
    again = Log().old(282, b"a", BEFORE).old(311, b"a", BEFORE).old(282, b"a", BEFORE, since_ms=282)
    assert [row.late for row in read(again).report().dropped] == [True]
