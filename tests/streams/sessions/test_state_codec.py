from pathlib import Path

import orjson
import pytest

from haltline.detectors.features.novelty import checksums
from haltline.streams.engine.core import SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_codec import CorruptState, UnreadableState
from haltline.streams.sessions.timers import TimerQueue, due_of
from tests.cases import cases

GOLDEN = Path(__file__).parent / "golden"
FULL = GOLDEN / "state_v2.json"
PACKED = "calls", "exact_calls", "pairs", "results", "beginnings"


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("state_v1*.json")), ids=lambda file: file.stem)
def test_a_state_of_an_older_release_is_read_and_nothing_of_it_is_lost(file: Path) -> None:
    written = orjson.loads(file.read_bytes())
    state = state_codec.decode(file.read_bytes())
    read = state_codec.shown(state_codec.decode(state_codec.encode(state)))
    novelty = state.calls.novelty
    if (numbers := written["calls"].pop("novelty", None)) is not None:
        assert [checksums(getattr(novelty, name)) for name in PACKED] == [tuple(numbers.pop(name)) for name in PACKED]
        assert novelty.words.split() == list(numbers.pop("words"))
        assert {str(line): reported & 0xF for line, reported in novelty.templates.items()} == {
            line: count for line, (count, _) in numbers.pop("templates").items()
        }
        assert _kept(numbers, read["calls"]["novelty"]) == numbers
    assert _kept(written, read) == written | {"v": 2}


def _kept(written: object, read: object) -> object:
    """What is read now, without fields that have come since."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {name: _kept(value, read[name]) for name, value in written.items()}
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [_kept(one, other) for one, other in zip(written, read, strict=True)]
    return read


def test_releases_see_each_other_s_versions_and_keep_what_they_do_not_know() -> None:
    for state in (SessionState("s1", due_ms=7), ScopeState("agent", "a1")):
        # An older release reads JSON, and ends where `v` is a number that it does not know.
        assert orjson.loads(state_codec.encode(state))["v"] == state_codec.VERSION == 2
    first, second = (state_codec.decode(file.read_bytes()) for file in (GOLDEN / "state_v1.json", FULL))
    for written in (first, second):
        assert written.detectors.pop("context_thrash")  # a rule that is gone: kept as it was written
    assert first == second
    later = SessionState("s1", detectors={"of_tomorrow": {"count": 3}})
    assert state_codec.decode(state_codec.encode(later)) == later
    with pytest.raises(CorruptState, match="state version: expected 2 or less, got 3") as raised:
        state_codec.decode(b'{"v": 3, "session_id": "s1"}')
    assert not isinstance(raised.value, UnreadableState), "it is not taken for damage"


WRITTEN = state_codec.encode(SessionState("s1"))


@cases(
    "data",
    {
        "not JSON": b"{",
        "a version that is no number": b'{"v": "1", "session_id": "s1"}',
        "a wrong type": b'{"v": 1, "session_id": "s1", "events": "many"}',
        "no hashes": b'{"v": 1, "session_id": "s1", "seen": "no digits"}',
        "a detector's state of another shape": b'{"v": 1, "session_id": "s1", "detectors": {"budget": {"used": 1}}}',
        "of this version, laid out otherwise": b'{"v": 2, "session_id": "s1"}',
        "cut": WRITTEN[:-1],
        "other bytes": WRITTEN[:60] + b"AAAA" + WRITTEN[64:],
        "nothing compressed": b'{"due_ms":0,"v":2,"state":""}',
        "of an agent": state_codec.encode(ScopeState("agent", "a1")),
        "a detector's other shape": state_codec.encode(SessionState("s1", detectors={"budget": {"used": 1}})),
    },
)
def test_what_is_no_state_cannot_be_read_and_it_says_so(data: bytes) -> None:
    with pytest.raises(UnreadableState, match=r"expected a state|state version"):
        state_codec.decode(data)


def test_the_last_word_on_a_session_counts_and_partitions_come_with_what_is_due_in_them_and_go_with_it() -> None:
    agenda = TimerQueue()
    for key, due_ms in ((b"a", 5), (b"b", 3), (b"a", 9), (b"c", 4), (b"b", 0), (b"c", 2)):
        agenda.put(key, 0, due_ms)
    assert [list(agenda.take(now_ms)) for now_ms in (1, 8, 9)] == [[], [b"c"], [b"a"]]
    assert len(agenda) == 0
    states = {name: state_codec.encode(SessionState(name.decode(), due_ms=due)) for name, due in ((b"a", 1), (b"b", 0))}
    agenda.recovered(0, states)
    agenda.recovered(1, {b"x": states[b"a"]})
    assert len(agenda) == 2
    agenda.revoke({1})
    assert list(agenda.take(10)) == [b"a"]
    assert due_of(b'{"session_id":"s1","v":1}') == 0, "a state of an older release is not due"
