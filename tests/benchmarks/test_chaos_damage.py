"""The check of unreadable changelog records: each is kept as a dead letter, or no owner has read it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from benchmarks.chaos import damage
from benchmarks.chaos.damage import SESSION, Strike
from benchmarks.chaos.history import histories
from benchmarks.chaos.verify import Check
from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import ID_BYTES, OWNER_HEADER, Claim
from haltline.streams.runtime.changelog import Owner as Writer

FIRST, SECOND, THIRD = 1, 2, 3
"""The writers, by number."""
NOW_MS = 1_500


@dataclass
class Changelog:
    """One partition, written in the order of its offsets."""

    records: list[LogRecord] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    _claims: dict[int, Writer] = field(default_factory=dict)

    def append(self, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> None:
        self.records.append(LogRecord("changelog", 2, len(self.records), NOW_MS, key, value, headers))

    def claim(self, writer: int) -> "Changelog":
        claim = Claim(b"%d" % writer * ID_BYTES)
        self._claims[writer] = Writer(len(self.records), claim.id)
        self.append(claim.key, None, claim.headers)
        return self

    def state(self, writer: int, session: str = SESSION, value: bytes | None = b"a state") -> "Changelog":
        self.append(session.encode(), value, [(OWNER_HEADER, self._claims[writer].encode())])
        return self

    def strike(self) -> "Changelog":
        self.strikes.append(Strike(b"damage %d" % len(self.strikes), 2, len(self.records)))
        self.append(SESSION.encode(), self.strikes[-1].value)
        return self

    def without(self, offset: int) -> "Changelog":
        """Compacted."""
        self.records = [record for record in self.records if record.offset != offset]
        return self

    def check(self, *kept: bytes) -> Check:
        letters = [LogRecord("dead", 0, number, 0, b"", value, ()) for number, value in enumerate(kept)]
        return damage.check(self.strikes, letters, histories(self.records))


def with_claims() -> Changelog:
    return Changelog().claim(FIRST).state(FIRST)


def test_each_strike_that_is_kept_is_counted() -> None:
    changelog = with_claims().strike().claim(SECOND).state(SECOND).strike().claim(THIRD).state(THIRD)
    check = changelog.check(b"damage 0", b"damage 1", b"damage 1")
    assert (check.ok, check.found, check.notes) == (True, "2 of 2, 1 repeated", ())


def test_a_strike_that_its_owner_wrote_over_without_having_read_it_is_excused() -> None:
    check = with_claims().strike().state(FIRST).check()
    assert (check.ok, check.found) == (True, "0 of 1, 0 repeated, 1 that no owner had read")
    why = "written over at offset 3 by the owner from offset 0 on, which had not read it"
    assert check.notes == (f"strike 1, partition 2 offset 2, is not kept: {why}",)


LOST = {
    "who read it wrote a state over it": (
        with_claims().strike().claim(SECOND).state(SECOND),
        "written over at offset 4 by the owner from offset 3 on, which had read it",
    ),
    "nothing is behind it": (
        with_claims().strike().claim(SECOND).state(SECOND, "another"),
        "no record of the session is behind it, although there were events of the session",
    ),
    "it was compacted": (
        with_claims().strike().state(FIRST).without(2),
        "its record is not in the changelog any more, so what was behind it is not known",
    ),
}


@pytest.mark.parametrize(("changelog", "why"), LOST.values(), ids=LOST)
def test_a_strike_that_is_lost_is_a_difference(changelog: Changelog, why: str) -> None:
    check = changelog.check()
    assert [str(difference) for difference in check.differences] == [
        f"strike 1, partition 2 offset 2: expected its bytes as a dead letter, got none: {why}"
    ]
    assert check.notes == ()


def test_a_letter_of_no_strike_is_a_difference_and_without_strikes_nothing_is_expected() -> None:
    check = with_claims().strike().claim(SECOND).state(SECOND).check(b"damage 0", b"other")
    assert [str(difference) for difference in check.differences] == ["damaged: expected no such letter, got b'other'"]
    assert Changelog().check().ok
