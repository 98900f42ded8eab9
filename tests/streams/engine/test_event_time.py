"""The time of an event is its own, unless it is far ahead of the log, or in mode `local` of the process."""

import time
import uuid
from typing import Literal

import pytest

from haltline.interventions.agent import Guard
from haltline.interventions.agent.transport.local_decider import forget_kill
from haltline.schemas.decisions import Level
from haltline.streams.engine.event_time import AHEAD_MS
from tests.builders import at, cases, some
from tests.interventions.agent.attempts import KILLED, attempts
from tests.streams.sessions.bench import TOPICS, Bench, delete

HOUR_MS = 3_600_000
TEN_YEARS_MS = 3650 * 24 * HOUR_MS
JUMPED = "minutes ahead of the log, whose time was used"


@cases(
    "ahead_ms, counted",
    {
        "no clock is ahead": ((0, 0, 0), 0),
        "a clock that is ahead by as much as clocks differ": ((AHEAD_MS,) * 3, 0),
        "one event is 25 hours ahead": ((0, 25 * HOUR_MS, 0), 1),
        "the first event is ten years ahead": ((TEN_YEARS_MS, 0, 0), 1),
        "the clock jumps by a day before the last": ((0, 0, 24 * HOUR_MS), 1),
        "a clock that is always ten years ahead": ((TEN_YEARS_MS,) * 3, 3),
        "one event is ten years late": ((0, -TEN_YEARS_MS, 0), 0),
    },
)
def test_three_deletes_are_stopped_whatever_the_clock_and_decisions_name_its_jump(
    ahead_ms: tuple[int, ...], counted: int
) -> None:
    bench = Bench()
    times = [at(second) + ahead for second, ahead in zip((0, 6, 12), ahead_ms, strict=True)]
    for second, time_ms in zip((0, 6, 12), times, strict=True):
        bench.put(TOPICS.actions, delete(second, time=time_ms), second=second)
    assert [decision.level for decision in bench.decisions] == [Level.NUDGE, Level.KILL]
    assert [decision.time for decision in bench.decisions] == times[1:], "on the agent's clock"
    named = [ahead > AHEAD_MS for ahead in ahead_ms[1:]]
    assert [JUMPED in decision.reason for decision in bench.decisions] == named
    assert bench.counted.told.count("event ahead") == counted


def test_a_request_to_an_agent_whose_clock_is_a_day_ahead_expires_on_that_clock() -> None:
    requests = []
    for ahead_ms in (0, 24 * HOUR_MS):
        bench = Bench()
        for n in range(3):
            made = delete(n, time=at(n) + ahead_ms, args={"asset_id": f"a{n}"}, await_verdict=True)
            bench.put(TOPICS.actions, made, second=n)
        requests.append(some(bench.decisions[-1].approval))
        assert bench.decisions[-1].expires == requests[-1].expires
    assert [(late.since - own.since, late.expires - own.expires) for own, late in [requests]] == [(24 * HOUR_MS,) * 2]


@pytest.mark.parametrize("mode", ["local", "blocking"])
def test_an_agent_whose_clock_jumps_is_stopped(
    mode: Literal["local", "blocking"], system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = uuid.uuid4().hex
    with Guard(mode=mode, session_id=session_id, agent_id=session_id, bootstrap=system) as guard:
        assert attempts(guard, 1, asset_id=session_id) == ["executed"]
        right_ns = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: right_ns() + 25 * HOUR_MS * 1_000_000)
        assert attempts(guard, 3, asset_id=session_id) == ["executed", KILLED, KILLED]
    forget_kill(session_id)
