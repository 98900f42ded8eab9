"""Type-checked, never run: the public face of the agent's side keeps its signatures."""

from collections.abc import Awaitable, Callable
from typing import assert_type

from haltline import Guard, Refused, load_policy
from haltline.interventions.agent import (
    Action,
    Advice,
    ClientRules,
    Decision,
    Effect,
    GuardSettings,
    Level,
    Task,
    Usage,
)
from haltline.interventions.agent.checkpoints import CallbackCheckpoints, FolderCheckpoints, GitCheckpoints
from haltline.testing import ScriptedGuard

guard = Guard(session_id="42", agent_id="cleaner", bootstrap="localhost:9092", mode="blocking", budget_s=0.5)
from_env = Guard(GuardSettings.from_env(), task=Task(goal="tidy up"), on_advice=print)

Guard(GuardSettings(mode="local"), bootstrap="localhost:9092")
Guard(mode="now")  # type: ignore[arg-type]  # no such mode
Guard(budget_seconds=1)  # type: ignore[call-arg]  # no such setting


@guard.tool
def delete_asset(asset_id: str, *, force: bool = False) -> str:
    return asset_id * force


@guard.tool(name="drop_table", effect="destructive", targets=("table",), mode="blocking")
async def drop(table: str) -> int:
    return len(table)


@guard.tool(effect=Effect.DESTRUCTIVE, targets=lambda args: [f"path={args['path']}"])
def remove(path: str) -> None: ...


guard.tool(mode="local")  # type: ignore[call-overload]  # the whole guard is local, or none of it
guard.tool(cost="much")  # type: ignore[call-overload]  # no such option

ruled = Guard(mode="local", rules=ClientRules(session_budget=1.0), checkpoints=GitCheckpoints("."))
Guard(mode="local", rules={"session_budget": 1.0})  # type: ignore[arg-type]  # rules are checked when they are made
Guard(mode="local", checkpoints=FolderCheckpoints("work", exclude=("*.log",)))
Guard(mode="local", checkpoints=CallbackCheckpoints(keep=print, restore=lambda checkpoint: f"restored {checkpoint}"))
Guard(mode="local", checkpoints="git")  # type: ignore[arg-type]  # an object that keeps and restores


@ruled.tool(cost_usd=0.02, once=["order"])
def refund(order: str) -> float:
    return len(order) / 2


assert_type(refund("a"), float)
assert_type(ruled.keep("c1"), str | None)
assert_type(ruled.limits, dict[str, float])
assert_type(ruled.subagent(agent_id="helper"), Guard)
ruled.subagent(agent="helper")  # type: ignore[call-arg]  # no such setting

plain: Callable[[str], str] = delete_asset
awaitable: Callable[[str], Awaitable[int]] = drop
assert_type(delete_asset("fact_sales", force=True), str)
delete_asset(7)  # type: ignore[arg-type]  # the decorator keeps the parameters


async def use() -> None:
    assert_type(await drop("fact_sales"), int)
    async with guard, guard.action("get_asset", args={"asset_id": "fact_sales"}) as act:
        assert_type(act, Action)


def use_blocking() -> None:
    with guard:
        guard.check()
        guard.model_turn(usage=Usage(input_tokens=10), output="text")
        try:
            with guard.action("delete_asset", targets=["asset_id=fact_sales"], effect="destructive") as act:
                act.result("gone")
                assert_type(act.advice, tuple[Advice, ...])
        except Refused as refused:
            assert_type(refused.code, str)
            assert_type(refused.reason, str)
            assert_type(refused.decision, Decision | None)
    assert_type(guard.killed, bool)
    assert_type(guard.dropped, int)


scripted = ScriptedGuard(Level.ALLOW, None, lambda proposal: Level.KILL if proposal.seq else None, session_id="42")
assert_type(scripted.killed, bool)

Guard(mode="local", policy="policy.yaml")
Guard(mode="local", policy={"name": "own"})
Guard(mode="local", policy=load_policy("policy.yaml"))
Guard(mode="local", policy=7)  # type: ignore[arg-type]  # no document
