"""Unreadable changelog records of a session that exists only for them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from benchmarks.chaos.history import PartitionHistory, Written
from benchmarks.chaos.verify import MISSING, UNEXPECTED, Check, Difference
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.replay.records import LogRecord

SESSION: Final = "damaged"
"""The id of its session and agent. It is checked separately, because its state depends on the times of the faults."""

_BYTES: Final = b'{"v":1,"session_id":"damaged","events":\xff'


class Strike(NamedTuple):
    """One unreadable record and its place in the changelog."""

    value: bytes
    """Unique bytes."""
    partition: int
    offset: int


class Damage:
    """Writes unreadable states of that session; each has unique bytes."""

    def __init__(self, bootstrap: str, topics: Topics, changelog: str) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._changelog = changelog
        self._time_ms = 1_750_000_000_000
        self.strikes: list[Strike] = []

    def strike(self) -> None:
        """Write an unreadable record. The owner detects the foreign write, ends, and reads it after its restart."""
        value = _BYTES + b"%d" % len(self.strikes)
        place = produce_confirmed(self._bootstrap, self._changelog, key=SESSION.encode(), value=value)
        self.strikes.append(Strike(value, place.partition, place.offset))

    def act(self) -> None:
        """Produce one event of the session, so that its state is read."""
        self._time_ms += 1000
        event = {
            "event_id": f"damaged-{self._time_ms}", "session_id": SESSION, "agent_id": SESSION, "time": self._time_ms,
            "kind": "action.proposed", "call_id": f"c{self._time_ms}", "action": "get_asset",
        }  # fmt: skip
        produce_confirmed(self._bootstrap, self._topics.actions, key=SESSION.encode(), value=orjson.dumps(event))


def check(
    strikes: Sequence[Strike],
    letters: Iterable[LogRecord],
    changelog: Mapping[int, PartitionHistory],
) -> Check:
    """Check that each strike is a dead letter, unless the changelog shows that no owner can have read it.

    A redelivery may repeat a letter. `changelog` is the whole of it, by partition.
    """
    kept = Counter(letter.value for letter in letters)
    values = {strike.value for strike in strikes}
    differences = [
        Difference(SESSION, f"expected no such letter, got {value!r}", UNEXPECTED)
        for value in kept
        if value not in values
    ]
    notes = []
    for number, strike in enumerate(strikes, start=1):
        if strike.value in kept:
            continue
        fate = _fate(strike, changelog.get(strike.partition))
        about = f"strike {number}, partition {strike.partition} offset {strike.offset}"
        if fate.excuses:
            notes.append(f"{about}, is not kept: {fate.text}")
        else:
            differences.append(
                Difference(about, f"expected its bytes as a dead letter, got none: {fate.text}", MISSING)
            )
    there = sum(value in kept for value in values)
    repeated = kept.total() - len(kept)
    found = f"{there} of {len(strikes)}, {repeated} repeated"
    if notes:
        found += f", {len(notes)} that no owner had read"
    return Check("damage to a state is kept and ends no process permanently", found, tuple(differences), tuple(notes))


class _Fate(NamedTuple):
    """The explanation of a strike without a dead letter."""

    excuses: bool
    """No owner had read it before it was overwritten."""
    text: str


def _fate(strike: Strike, history: PartitionHistory | None) -> _Fate:
    """Find the first record that overwrote it, in the changelog only."""
    written = [] if history is None else history.of_key(SESSION.encode())
    struck = next((one.record for one in written if one.record.offset == strike.offset), None)
    if history is None or struck is None or struck.value != strike.value:
        return _Fate(False, "its record is not in the changelog any more, so what was behind it is not known")
    over = next((one for one in written if one.record.offset > strike.offset and _takes_its_place(one, strike)), None)
    if over is None:
        return _Fate(False, "no record of the session is behind it, although there were events of the session")
    return _fate_of_overwritten(struck, over.record, history)


def _takes_its_place(written: Written, strike: Strike) -> bool:
    """Return whether a record counts and has other content: an owner rewrites a value after a late record."""
    return written.counts and written.record.value != strike.value


def _fate_of_overwritten(struck: LogRecord, over: LogRecord, history: PartitionHistory) -> _Fate:
    where = f"written over at offset {over.offset}"
    since = history.owned_since(over)
    if since is None:
        return _Fate(True, f"{where} by the next damage, with no state of the session between them")
    if history.had_read(over, struck):
        return _Fate(False, f"{where} by the owner from offset {since} on, which had read it")
    return _Fate(True, f"{where} by the owner from offset {since} on, which had not read it")


def is_of_state(letter: LogRecord) -> bool:
    """Return whether a dead letter is of a state, not of a source record."""
    found = DeadLetter.from_record(letter.key, letter.value, letter.headers)
    return found.reason is BadRecord.UNREADABLE_STATE
