"""Which sessions are due: found by the first bytes of their states."""

from haltline.streams.engine.core import SessionState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.timers import TimerQueue, due_of


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
