import os
import time
from pathlib import Path

import pytest

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.claude_code.stops import Earlier, Stop
from haltline.interventions.agent.integrations.hooks.stored import MAX_STATES, Stored

KILL = Stop("3 deletes", is_local=True)


def test_counts_expire_and_are_limited_and_a_stop_stays_until_it_is_released(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    for number in range(MAX_STATES + 2):
        stored.keep(f"s{number}", b"state")
    stored.keep("old", b"state")
    stored.stop("old", KILL)
    for file in tmp_path.glob(f"{Stored(tmp_path).file('old', '').name}*"):
        os.utime(file, (time.time() - 7200,) * 2)
    stored.prune(ttl_s=3600)
    assert len([*tmp_path.glob("*.state")]) == MAX_STATES
    assert Stored(tmp_path).earlier("old") == Earlier(None, KILL)
    assert (stored.forget("old"), stored.forget("old"), stored.earlier("old")) == (True, False, Earlier())


def test_a_stop_is_written_when_it_changes_and_removed_when_the_session_may_go_on(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.stop("s1", None)
    assert [*tmp_path.iterdir()] == []
    for stop in (KILL, KILL._replace(is_kill=False, may_report=True), None):
        stored.stop("s1", stop)
        assert Stored(tmp_path).stopped("s1") == stop


def test_an_unreadable_stop_is_none(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.stop("s1", KILL)
    stored.file("s1", ".stop").write_text("{}")
    assert stored.stopped("s1") is None


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a state"):
        Guard(session_id="goes-on", agent_id="a", mode="local").go_on(b"1\nno state")
