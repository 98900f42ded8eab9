"""The records of a changelog that its readers accept, and late ones of a replaced owner that they ignore."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from haltline.streams.runtime.changelog import (
    EPOCH_HEADER,
    ID_BYTES,
    OWNER_HEADER,
    TOPIC_IDS_HEADER,
    ChangelogGap,
    Claim,
    Epoch,
    ForeignWrite,
    Owner,
    PartitionState,
)
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.topic_ids import Logs
from haltline.streams.runtime.topic_incarnations import TopicIncarnations
from tests.builders import cases


@dataclass(frozen=True)
class Record:
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    topic: str = "changelog"
    partition: int = 0
    timestamp: int = 0


def written(offset: int, key: bytes | None, value: bytes | None, *, era: int | None, since_ms: int = 0) -> Record:
    headers = () if era is None else ((EPOCH_HEADER, Epoch(era, since_ms).encode()),)
    return Record(offset, key, value, headers)


def read(*records: Record) -> PartitionState:
    part = PartitionState(0)
    part.apply(records)
    return part


def id_of(name: str) -> bytes:
    return name.encode().ljust(ID_BYTES)


def claimed(offset: int, by: str) -> Record:
    claim = Claim(id_of(by))
    return Record(offset, claim.key, None, claim.headers)


def state(offset: int, key: bytes, value: bytes | None, *, of: tuple[int, str]) -> Record:
    """A state under the claim of an owner: its offset and its name."""
    return Record(offset, key, value, ((OWNER_HEADER, Owner(of[0], id_of(of[1])).encode()),))


def released(offset: int) -> Record:
    marker = Claim(b"")
    return Record(offset, marker.key, None, marker.headers)


def of_logs(offset: int, name: str, logs: bytes) -> Record:
    claim = Claim(id_of(name), logs)
    return Record(offset, claim.key, None, claim.headers)


def test_states_are_stale_behind_a_claim_with_other_logs_until_they_are_written_again() -> None:
    first, second = (0, "a"), (3, "b")
    part = PartitionState(0)
    part.apply([of_logs(*first, b"before"), state(1, b"a", b"1", of=first), state(2, b"b", b"1", of=first)])
    assert (part.stale, part.former) == (set(), set())
    part.apply([of_logs(*second, b"now"), state(4, b"a", b"2", of=second), claimed(5, "c")])
    assert (part.stale, part.former) == ({b"b"}, {b"before"}), "a claim without logs says nothing"
    part.put(b"b", None, written_ms=1)
    part.apply([of_logs(6, "d", b"now")])
    assert (part.stale, part.values) == (set(), {b"a": b"2"})


def test_states_of_an_earlier_release_name_the_logs_themselves() -> None:
    part = PartitionState(0)
    part.apply([Record(0, b"a", b"1", ((TOPIC_IDS_HEADER, b"before"),)), Record(1, b"b", b"1", ())])
    part.apply([of_logs(2, "a", b"before")])
    assert part.stale == set()
    part.apply([of_logs(3, "b", b"now")])
    assert part.stale == {b"a", b"b"}


def test_reading_has_no_gaps_and_states_of_an_older_release_count_by_their_epochs() -> None:
    part = read(Record(0, b"a", b"1"))
    part.apply([Record(5, b"a", b"2")], begins=1, following=6)  # compaction has taken what was between
    part.apply([], begins=6, following=8)  # an end that is no record, as the mark of a transaction
    with pytest.raises(ChangelogGap, match="partition 0: expected records from offset 8 on, got some from 9 on"):
        part.apply([Record(9, b"a", b"3")], begins=9, following=10)
    part.apply([Record(5, b"a", b"2"), Record(8, b"a", b"3")], begins=-2, following=9)
    assert (part.values, part.position) == ({b"a": b"3"}, 9)
    part = read(
        written(0, b"a", b"1", era=1),
        written(1, b"a", b"2", era=2, since_ms=10),
        written(2, b"a", b"late", era=1),
        written(3, b"a", b"late", era=2, since_ms=9),
        written(4, b"c", b"3", era=5),
        written(5, None, b"?", era=1),
        written(6, b"d", b"late", era=1),
        written(7, b"d", b"written anew", era=6),
        written(8, b"e", b"broken", era=7),
        written(9, b"e", None, era=None),  # by an operator
    )
    assert part.values == {b"a": b"2", b"c": b"3", b"d": b"written anew"}
    assert (part.fenced_keys, part.skipped) == ({b"a"}, 1)


def expecting(part: PartitionState, name: str) -> PartitionState:
    part.expect(Claim(id_of(name)))
    return part


@cases(
"log",
{
"behind the marker": [claimed(0, "a"), released(1), written(2, b"k", b"1", era=9)],
"before the marker": [claimed(0, "a"), written(1, b"k", b"1", era=9), released(2)],
"when marker and claims have expired": [state(1, b"j", b"1", of=(0, "a")), written(2, b"k", b"1", era=9),
                      state(4, b"l", b"1", of=(3, "b"))],
},
)  # fmt: skip
def test_a_release_marker_lets_states_of_an_older_release_count_and_they_are_written_anew(log: list[Record]) -> None:
    part = expecting(read(*log), "c")
    part.apply([state(8, b"m", b"late", of=(0, "a")), claimed(9, "c")])
    assert part.claimed
    assert part.values[b"k"] == b"1"
    assert b"m" not in part.values, "what a replaced owner writes counts no more than without a marker"
    assert b"k" in read(claimed(0, "a"), released(1), written(2, b"k", b"1", era=9)).fenced_keys


def test_a_partition_is_claimed_until_another_is_and_own_records_land_one_after_the_other() -> None:
    part = expecting(read(claimed(0, "a")), "b")
    assert (part.claimed, part.superseded) == (False, False)
    with pytest.raises(RuntimeError, match="partition 0: expected a claim of this process, got none"):
        part.headers()
    part.apply([state(1, b"k", b"1", of=(0, "a")), claimed(2, "b")])
    assert (part.claimed, part.superseded) == (True, False)
    part.apply([claimed(3, "z")])
    assert (part.claimed, part.superseded) == (False, True)
    expecting(part, "b2").apply([claimed(4, "b2")])
    assert part.claimed
    part = owner()
    for offset in (2, 3):
        part.check_end_offset(offset)
        part.record_sent()
        part.record_confirmed(offset)
    assert (part.position, part.in_flight) == (4, 0)
    part.record_sent()
    part.check_end_offset(5)
    part.check_end_offset(0)  # asked for long ago
    with pytest.raises(ForeignWrite, match="expected its end at offset 5 or before, got 6"):
        part.check_end_offset(6)
    for elsewhere in (3, 5):
        with pytest.raises(ForeignWrite, match=rf"partition 0: expected our record at offset 4, got {elsewhere}"):
            part.record_confirmed(elsewhere)


def owner() -> PartitionState:
    part = expecting(read(claimed(0, "a")), "b")
    part.apply([claimed(1, "b")])
    assert part.claimed
    return part


CHANGELOG = "states"
PLACE = ("actions", 0)
BEFORE = Logs({"actions": "a1", "commands": "c1"}, "s1")
NOW = Logs({"actions": "a2", "commands": "c1"}, "s1")
UNKNOWN = Logs({})


def lives(logs: Logs) -> tuple[TopicIncarnations, Metrics]:
    metrics = Metrics()
    return TopicIncarnations(logs, CHANGELOG, metrics), metrics


def counted(metrics: Metrics, topic: str) -> float | None:
    return metrics.registry.get_sample_value("haltline_topics_made_anew_total", {"topic": topic})


@cases(
    "logs, committed, beside, marks, begins_at, reported",
    {
        "as it was": (NOW, 40, NOW.in_commit("actions"), [], 40, 0),
        "recreated and grown beyond": (NOW, 40, BEFORE.in_commit("actions"), [], None, 1),
        "recreated, and the cluster forgot what was committed": (NOW, None, "", [BEFORE.mark], None, 1),
        "nothing was committed": (NOW, None, "", [b"", NOW.mark], None, 0),
        "recreated, and said by an earlier one": (NOW, 40, NOW.in_commit("actions"), [BEFORE.mark], 40, 0),
        "committed by an older release": (NOW, 40, "", [], 40, 0),
        "committed by an older release, beyond the end": (NOW, 140, "", [], None, 1),
        "no ids, beyond the end": (UNKNOWN, 140, "", [], None, 1),
        "the same log lost its end": (NOW, 140, NOW.in_commit("actions"), [], 100, 0),
    },
)
def test_where_reading_begins(
    logs: Logs, committed: int | None, beside: str, marks: list[bytes], begins_at: int | None, reported: int
) -> None:
    found, metrics = lives(logs)
    for _ in range(2):
        assert found.begins_at(PLACE, committed, beside, 100, marks) == begins_at
    assert len(found.notes) == reported
    assert counted(metrics, "actions") == (reported or (0 if logs.ids else None))


def test_a_changelog_that_was_recreated_is_reported_and_reading_goes_on_where_it_was() -> None:
    found, metrics = lives(Logs(BEFORE.ids, "s2"))
    assert found.begins_at(PLACE, 40, BEFORE.in_commit("actions"), 100, []) == 40
    assert counted(metrics, CHANGELOG) == 1
    assert "topic states was recreated: the states of sessions are lost" in found.notes[0]
