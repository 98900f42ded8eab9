import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from haltline.interventions.agent import Level, Refused
from haltline.interventions.agent.testing import ScriptedGuard, decision
from haltline.schemas.events import ActionEvent, Kind, Outcome
from tests.interventions.agent.attempts import of, outcomes
from tests.waiting import wait_until


def test_a_coroutine_function_stays_one_and_is_guarded() -> None:
    guard = ScriptedGuard(Level.ALLOW, Level.KILL)

    @guard.tool
    async def delete_asset(asset_id: str) -> str:
        await asyncio.sleep(0)
        return f"deleted {asset_id}"

    async def agent() -> str:
        async with guard:
            done = await delete_asset("a")
            with pytest.raises(Refused, match="session_killed_loop_guard"):
                await delete_asset("b")
        return done

    assert asyncio.iscoroutinefunction(delete_asset)
    assert asyncio.run(agent()) == "deleted a"
    assert outcomes(guard) == [Outcome.OK, Outcome.REFUSED]
    assert guard.events[-1].kind is Kind.SESSION_ENDED


async def enter(guard: ScriptedGuard, action: str = "get_asset") -> None:
    async with guard.action(action):
        assert action != "delete_asset", "it was executed"


async def waits(guard: ScriptedGuard, action: str) -> tuple["asyncio.Task[None]", ActionEvent]:
    waiting = asyncio.create_task(enter(guard, action))
    while not of(guard, Kind.PROPOSED):
        await asyncio.sleep(0)
    return waiting, guard.events[1]


def test_the_event_loop_goes_on_while_a_verdict_is_waited_for() -> None:
    guard = ScriptedGuard(None, budget_s=60.0)

    async def agent() -> None:
        waiting, proposal = await waits(guard, "get_asset")
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        with ThreadPoolExecutor(1) as other:  # as a link does, from a thread of its own
            await asyncio.wrap_future(other.submit(guard.send, decision(Level.ALLOW, proposal)))
        await waiting

    asyncio.run(agent())
    assert guard.events[-1].outcome is Outcome.OK


def test_a_call_that_is_cancelled_is_refused_while_it_waits_and_unknown_while_it_runs() -> None:
    guard, other = ScriptedGuard(None, budget_s=60.0), ScriptedGuard()
    running = asyncio.Event()

    @other.tool
    async def export_asset() -> None:
        running.set()
        await asyncio.Event().wait()

    async def agent() -> None:
        waiting, _ = await waits(guard, "delete_asset")
        runs = asyncio.create_task(export_asset())
        await running.wait()
        for task in (waiting, runs):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(agent())
    assert (guard.events[-1].outcome, guard.events[-1].error) == (Outcome.REFUSED, "interrupted before it began")
    assert other.events[-1].outcome is Outcome.UNKNOWN


def test_a_verdict_that_comes_after_the_loop_was_closed_harms_nobody() -> None:
    guard = ScriptedGuard(None, budget_s=0.01)
    asyncio.run(enter(guard))
    guard.send(decision(Level.NUDGE, guard.events[1]))
    wait_until(lambda: guard.feedback, "the late decision is received")
    with guard.action("get_asset") as act:
        assert [advice.level for advice in act.advice] == [Level.NUDGE]


def test_an_object_with_a_coroutine_call_is_reported_as_ended_when_it_has_ended() -> None:
    class Lookup:
        async def __call__(self, x: int) -> int:
            await asyncio.sleep(0)
            raise ValueError(x)

    guard = ScriptedGuard()
    with pytest.raises(ValueError, match="7"):
        asyncio.run(guard.tool(name="lookup")(Lookup())(7))
    assert outcomes(guard) == [Outcome.ERROR]
