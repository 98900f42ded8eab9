"""States of sessions that cannot be read, are of another release, or forget offsets: without a broker."""

import pytest

from haltline.schemas.control import CommandKind
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.streams.engine.session_state import SessionState
from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import SCOPE_KEY
from haltline.streams.sessions.state_codec import CorruptState
from tests.cases import cases
from tests.streams.sessions.bench import (
    DAY_S,
    HOME,
    OTHERS,
    PARTITIONS,
    SESSION,
    T0_MS,
    TOPICS,
    Bench,
    delete,
    killed_bench,
    operator,
)


def read_from(key: bytes, data: bytes, partition: int = HOME) -> Bench:
    """A pipeline whose changelog has these bytes under this key."""
    slices = [PartitionState(number) for number in range(PARTITIONS)]
    slices[partition].put(key, data, T0_MS)
    bench = Bench(slices=slices)
    bench.pipeline.recovered(partition, slices[partition].values)
    return bench


GOOD = killed_bench().checkpoint()[SESSION.encode()] or b""
UNREADABLE = {"nothing": b"", "cut": GOOD[:-7], "not text": b"\x00\xff" + GOOD}


@cases(
    "data",
    UNREADABLE
    | {
        "of another session": state_codec.encode(SessionState("s2")),
        "due at no time": b'{"due_ms":soon,' + GOOD[1:],
        "due, and cut": b'{"due_ms":1,' + GOOD[1:20],
        "deeper than anything": b"[" * 5000,
    },
)
def test_a_state_that_cannot_be_read_begins_anew_and_its_bytes_are_kept(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bench = read_from(SESSION.encode(), data)
    bench.pipeline.tick()
    bench.put(TOPICS.actions, delete(0))
    (letter,) = bench.letters
    assert (letter.reason, letter.key, letter.raw) == (BadRecord.UNREADABLE_STATE, SESSION.encode(), data)
    assert letter.detail.startswith(f"session s1, partition {HOME} of haltline-sessions-changelog: its state cannot be")
    assert "haltline kill" in letter.detail
    assert letter.detail in caplog.text
    assert bench.counted.told.count("dead letter unreadable_state") == 1
    assert bench.sent.of(TOPICS.control) == [], "what stands there stays"
    kept = state_codec.decode(bench.checkpoint()[SESSION.encode()] or b"")
    assert (kept.events, kept.offsets) == (1, {TOPICS.actions: 0})


@cases("data", UNREADABLE)
def test_what_cannot_be_read_of_an_agent_begins_anew_too(data: bytes) -> None:
    key = SCOPE_KEY + b"agent:cleaner"
    home = partition_of("cleaner", PARTITIONS)
    bench = read_from(key, data, home)
    bench.put(TOPICS.commands, operator(CommandKind.KILL, ScopeKind.AGENT, "cleaner"), partition=home)
    assert len(bench.sent.of(TOPICS.control)) == 1
    assert bench.sent.of(TOPICS.dead_letter) == [data]
    assert state_codec.decode_scope(bench.checkpoint()[key] or b"").id == "cleaner"


@pytest.mark.parametrize("key", [b"s1", b"\xfe\xfd", SCOPE_KEY + b"agent:cleaner", SCOPE_KEY + b"\xfe"])
def test_what_cannot_be_read_and_is_without_further_records_is_dropped_when_it_is_idle(key: bytes) -> None:
    bench = read_from(key, b'{"due_ms":1,')
    bench.pipeline.tick()
    for days in (2, 4):
        bench.deletes(days * DAY_S, session=OTHERS[0])
        bench.checkpoint()
    assert key not in bench.table
    assert b'{"due_ms":1,' in bench.sent.of(TOPICS.dead_letter)


def test_a_state_forgets_offsets_and_nothing_else_and_one_of_a_later_release_ends_the_process() -> None:
    bench = read_from(SESSION.encode(), GOOD.replace(b'"v":2', b'"v":3'))
    with pytest.raises(CorruptState, match="expected 2 or less, got 3"):
        bench.put(TOPICS.actions, delete(0))
    bench = Bench()
    key, before = SESSION.encode(), state_codec.shown(state_codec.decode(GOOD))
    assert before["offsets"] == {TOPICS.actions: 2}
    assert bench.pipeline.forget(key, GOOD, {TOPICS.actions: 3, TOPICS.commands: 0}) == GOOD
    assert bench.pipeline.forget(key, b"damage", {TOPICS.actions: 0}) == b"damage", "is told when it is needed"
    for end in (0, 2):
        after = state_codec.shown(state_codec.decode(bench.pipeline.forget(key, GOOD, {TOPICS.actions: end})))
        assert after == before | {"offsets": {}}, "a kill and what was counted stay"
