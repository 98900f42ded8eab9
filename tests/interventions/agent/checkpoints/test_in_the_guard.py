"""A ROLLBACK is carried out, proved and told; what cannot be carried out is told too."""

import asyncio
import threading
from pathlib import Path

import pytest

from haltline.interventions.agent import Level, Refused
from haltline.interventions.agent.checkpoints import CallbackCheckpoints, FolderCheckpoints
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.schemas.control import Feedback, Stage
from haltline.schemas.events import ActionEvent, Effect
from tests.interventions.agent.stand_in import decision as sent


def back_to(checkpoint: str | None) -> Verdict:
    return lambda event: decision(Level.ROLLBACK, event, message="The same again.", checkpoint=checkpoint)


def last_of(guard: ScriptedGuard, *stages: Stage) -> Feedback:
    return next(answer for answer in reversed(guard.feedback) if answer.stage in stages)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("good\n")
    return folder


def test_the_guard_goes_back_proves_it_and_says_so(work: Path) -> None:
    guard = ScriptedGuard(Level.ALLOW, back_to("c1"), checkpoints=FolderCheckpoints(work))
    assert guard.keep("c1") == "c1"
    assert [event.checkpoint.id for event in guard.events if event.checkpoint is not None] == ["c1"]

    @guard.tool
    def write(text: str) -> None:
        (work / "a.txt").write_text(text)

    write("bad\n")
    with pytest.raises(Refused) as refused:
        write("worse\n")
    assert (work / "a.txt").read_text() == "good\n"
    assert refused.value.reason == (
        "The same again. The work was put back to checkpoint c1. Go on from there, another way."
    )
    reported = last_of(guard, Stage.APPLIED)
    assert reported.detail.startswith("restored: checkpoint c1: 1 files put back, 0 removed; 1 files have the content")
    assert guard.keep() is not None, "and it goes on from there"
    write("better\n")


@pytest.mark.parametrize(
    ("checkpoint", "detail", "says"),
    [
        pytest.param("c9", "not restored: checkpoint c9 is not known here", "could not be undone", id="not known"),
        pytest.param(None, "no checkpoint is safe", "a person has to look", id="none is safe"),
    ],
)
def test_what_could_not_be_put_back_is_reported(work: Path, checkpoint: str | None, detail: str, says: str) -> None:
    guard = ScriptedGuard(back_to(checkpoint), checkpoints=FolderCheckpoints(work))
    with pytest.raises(Refused, match=says), guard.action("write"):
        pass
    assert detail in last_of(guard, Stage.APPLIED, Stage.FAILED).detail
    assert Stage.APPLIED not in [answer.stage for answer in guard.feedback]


def test_without_checkpoints_it_is_left_to_the_agents_own_code() -> None:
    guard = ScriptedGuard(back_to("c1"))
    with pytest.raises(Refused) as refused, guard.action("write"):
        pass
    assert refused.value.decision is not None
    assert refused.value.decision.checkpoint == "c1"
    assert "left to the agent's own code" in last_of(guard, Stage.APPLIED).detail
    assert guard.keep() is None


def test_in_async_mode_it_is_carried_out_before_the_next_call(work: Path) -> None:
    guard = ScriptedGuard(checkpoints=FolderCheckpoints(work), mode="async", fail_closed_from=Effect.DESTRUCTIVE)
    guard.keep("c1")
    (work / "a.txt").write_text("bad\n")
    guard.send(sent(Level.ROLLBACK, session_id=guard.session_id).model_copy(update={"checkpoint": "c1"}))
    with pytest.raises(Refused), guard.action("read"):
        pass
    assert (work / "a.txt").read_text() == "good\n"
    with guard.action("read"):
        pass


def test_the_event_loop_goes_on_and_other_calls_wait_meanwhile() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def restore(checkpoint: str) -> str:
        begun.set()
        assert go_on.wait(10)
        return "by hand"

    def verdict(event: ActionEvent) -> Level:
        return Level.ALLOW

    guard = ScriptedGuard(back_to("c1"), verdict, checkpoints=CallbackCheckpoints(keep=print, restore=restore))
    order: list[str] = []

    async def first() -> None:
        with pytest.raises(Refused):
            async with guard.action("write"):
                pass
        order.append("went back")

    async def second() -> None:
        await asyncio.to_thread(begun.wait, 10)
        async with guard.action("other"):
            order.append("other call")

    async def both() -> None:
        tasks = [asyncio.create_task(first()), asyncio.create_task(second())]
        await asyncio.to_thread(begun.wait, 10)
        order.append("the loop goes on")
        go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(both())
    assert order[0] == "the loop goes on"
    assert set(order[1:]) == {"went back", "other call"}


def test_a_restore_that_calls_a_guarded_tool_does_not_wait_for_itself() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def restore(checkpoint: str) -> str:
        begun.set()
        assert go_on.wait(10)
        with guard.action("restore_snapshot", args={"checkpoint": checkpoint}):
            return "by a tool"

    checkpoints = CallbackCheckpoints(keep=print, restore=restore)
    guard = ScriptedGuard(back_to("c1"), checkpoints=checkpoints, rollback_budget_s=1.0)

    async def write() -> str:
        with pytest.raises(Refused) as refused:
            async with guard.action("write"):
                pass
        return refused.value.reason

    async def both() -> str:
        task = asyncio.create_task(write())
        await asyncio.to_thread(begun.wait, 10)  # the loop is free: the call waits for going back
        go_on.set()
        return await task

    assert "was put back to checkpoint c1" in asyncio.run(both())
    assert "by a tool" in last_of(guard, Stage.APPLIED).detail
