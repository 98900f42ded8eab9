import asyncio
import threading
from pathlib import Path

import pytest

from haltline.interventions.agent import Level, Refused
from haltline.interventions.agent.checkpoints import CallbackCheckpoints, FolderCheckpoints
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.schemas.control import Stage
from haltline.schemas.events import Effect
from tests.builders import some
from tests.interventions.agent.attempts import attempt, refusal
from tests.interventions.agent.stand_in import decision as sent


def back_to(checkpoint: str | None) -> Verdict:
    return lambda event: decision(Level.ROLLBACK, event, message="The same again.", checkpoint=checkpoint)


def told(guard: ScriptedGuard, *stages: Stage) -> str:
    return next(answer.detail for answer in reversed(guard.feedback) if answer.stage in stages)


def test_without_checkpoints_it_is_left_to_the_agents_own_code() -> None:
    guard = ScriptedGuard(back_to("c1"))
    assert some(refusal(guard, "write").decision).checkpoint == "c1"
    assert "left to the agent's own code" in told(guard, Stage.APPLIED)
    assert guard.keep() is None


def test_in_async_mode_it_is_carried_out_before_the_next_call(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("good\n")
    guard = ScriptedGuard(checkpoints=FolderCheckpoints(work), mode="async", fail_closed_from=Effect.DESTRUCTIVE)
    guard.keep("c1")
    (work / "a.txt").write_text("bad\n")
    guard.send(sent(Level.ROLLBACK, session_id=guard.session_id).model_copy(update={"checkpoint": "c1"}))
    assert attempt(guard, "read") == "rollback"
    assert (work / "a.txt").read_text() == "good\n"
    assert attempt(guard, "read") == "executed"


@pytest.mark.parametrize("by_a_tool", [False, True])
def test_the_event_loop_goes_on_other_calls_wait_and_a_guarded_restore_does_not(by_a_tool: bool) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def restore(checkpoint: str) -> str:
        begun.set()
        assert go_on.wait(10)
        if by_a_tool:
            attempt(guard, "restore_snapshot", args={"checkpoint": checkpoint})
        return "by hand"

    checkpoints = CallbackCheckpoints(keep=print, restore=restore)
    guard = ScriptedGuard(back_to("c1"), checkpoints=checkpoints, rollback_budget_s=5.0)
    order: list[str] = []

    async def call(name: str) -> None:
        try:
            async with guard.action(name):
                order.append(name)
        except Refused as refused:
            order.append(refused.reason)

    async def both() -> None:
        write = asyncio.create_task(call("write"))
        await asyncio.to_thread(begun.wait, 10)
        other = asyncio.create_task(call("other"))
        order.append("the loop goes on")
        go_on.set()
        await asyncio.gather(write, other)

    asyncio.run(both())
    assert (order[0], "other" in order) == ("the loop goes on", True)
    assert any("was restored to checkpoint c1" in one for one in order)
    assert "by hand" in told(guard, Stage.APPLIED)
