"""Slowed polls: which call is delayed, and for how long."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from haltline import Guard
from haltline.interventions.agent.rules.throttled import MIB, Throttled
from haltline.schemas.events import Effect, Usage
from tests.builders import cases

S = 1000  # ms
JOB: dict[str, object] = {"job": 1}


def slowed() -> Throttled:
    """A poll was made at 1,000 ms, and slowed to one in ten seconds until 60,000 ms."""
    throttled = Throttled(hold_s=300)
    throttled.made("c1", "get_job", JOB, 1_000)
    throttled.slow("c1", 10, 1_000, until_ms=60_000)
    return throttled


@cases(
    "action, args, now_ms, expected",
    {
        "the same poll waits for the rest of the interval": ("get_job", {"job": 1}, 4_000, 7.0),
        "it waits no longer after the interval": ("get_job", JOB, 11_000, 0.0),
        "a clock that went back": ("get_job", JOB, 0, 10.0),
    },
)
def test_what_is_delayed(action: str, args: dict[str, object], now_ms: int, expected: float) -> None:
    assert slowed().pause_s(action, args, now_ms) == expected


def test_the_interval_counts_from_the_last_poll_and_a_later_decision_replaces_an_earlier_one() -> None:
    throttled = slowed()
    throttled.made("c2", "get_job", JOB, 11_000)
    assert throttled.pause_s("get_job", JOB, 12_000) == 9.0
    throttled.slow("c2", 20, 12_000, until_ms=90_000)
    assert throttled.pause_s("get_job", JOB, 12_000) == 19.0


def test_an_unknown_call_is_not_slowed_and_few_calls_are_remembered() -> None:
    throttled = Throttled(hold_s=300)
    for number in range(20):
        throttled.made(f"c{number}", "get_job", {"job": number}, 0)
    for call_id in (None, "c3"):
        throttled.slow(call_id, 10, 0)
        assert throttled.pause_s("get_job", {"job": 3}, 0) == 0.0


def test_a_guard_slows_polls_of_something_silent_and_stops_none_of_them() -> None:
    polls = 0
    with Guard(session_id="waits", mode="local", max_pause_s=0.001) as guard:
        for _ in range(40):
            with guard.action("get_job_status", args=JOB) as action:
                polls += 1
                action.result("state: queued")
        assert guard._gate.throttled.pause_s("get_job_status", JOB, 0) > 0
        assert guard._gate.throttled.pause_s("get_job_status", {"job": 2}, 0) == 0
    assert polls == 40


LIMITS = {"max_file_operations": 2.0, "max_tokens": 100.0, "max_memory_mb": 10.0, "batch_size": 4.0}


@cases(
    "used, effect, name",
    {
        "within": ([], Effect.WRITE, None),
        "too many writes": ([Effect.WRITE, Effect.MUTATE], Effect.WRITE, "max_file_operations"),
        "looking is never held back": ([Effect.WRITE, Effect.MUTATE], Effect.READ, None),
        "too many tokens": ([Usage(input_tokens=101)], Effect.EXEC, "max_tokens"),
        "too much memory": ([Usage(memory_bytes=11 * MIB)], Effect.EXEC, "max_memory_mb"),
    },
)
def test_limits_of_a_throttling(used: Sequence[Effect | Usage], effect: Effect, name: str | None) -> None:
    throttled = Throttled(hold_s=300)
    throttled.take(LIMITS, 0)
    for one in used:
        if isinstance(one, Usage):
            throttled.used(one)
        else:
            throttled.note(one)
    objection = throttled.against(effect, 1)
    assert (next(iter(objection.thresholds)) if objection else None) == name
    assert throttled.against(effect, 300 * S) is None, "over"


@given(taken=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60), st.integers(0, 3)), min_size=1, max_size=40))
def test_no_throttling_ever_lets_more_pass_than_it_says(taken: list[tuple[int, int, int]]) -> None:
    throttled = Throttled(hold_s=300)
    stand: list[list[int]] = []  # value, until, used since
    for now, (value, for_s, tries) in enumerate(taken):
        throttled.take({"max_file_operations": value}, now, now + for_s)
        stand.append([value, now + for_s, 0])
        for _ in range(tries):
            if throttled.against(Effect.WRITE, now) is None:
                throttled.note(Effect.WRITE)
                for one in stand:
                    one[2] += 1
                assert all(used <= limit for limit, until, used in stand if now < until)
