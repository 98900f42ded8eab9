import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from haltline.interventions.agent import Guard, Level, Refused
from haltline.interventions.agent.testing import ScriptedGuard, decision, killed
from haltline.interventions.agent.transport.transport import NoTransport
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.wire import decode_event
from tests.interventions.agent.attempts import attempt, attempts, of, outcomes
from tests.waiting import wait_until


def test_the_agents_own_exception_goes_through_unchanged_and_is_reported() -> None:
    for error, outcome, text in (
        (PermissionError("password=hunter22"), Outcome.ERROR, "PermissionError: password=[redacted:password]"),
        (TimeoutError("late"), Outcome.TIMEOUT, "TimeoutError: late"),
        (KeyboardInterrupt("stop"), Outcome.UNKNOWN, "KeyboardInterrupt: stop"),
    ):
        guard = ScriptedGuard()
        with pytest.raises(type(error)) as raised, guard.action("get_asset"):
            raise error
        assert (raised.value, guard.events[-1].outcome, guard.events[-1].error) == (error, outcome, text)


def test_an_agent_that_hammers_at_a_refusal_does_not_flood_the_topics() -> None:
    guard = ScriptedGuard(Level.KILL)
    assert set(attempts(guard, 1000)) == {"session_killed_loop_guard"}
    assert len(guard.events) < 100
    assert len(guard.feedback) < 100


def test_targets_that_fail_or_change_what_they_are_given_break_no_call(caplog: pytest.LogCaptureFixture) -> None:
    guard = ScriptedGuard()
    delete = guard.tool(name="delete_asset", targets=lambda args: [args["misspelt"]])(lambda asset_id: asset_id)
    assert delete("a") == "a"
    assert "targets of delete_asset" in caplog.text
    assert guard.events[-1].targets == []
    remove = guard.tool(name="remove", targets=lambda args: [args.pop("path")])(lambda path: f"removed {path}")
    assert remove(path="/srv/a") == "removed /srv/a"


def test_arguments_are_reported_by_name_with_defaults_and_without_self_and_those_that_do_not_fit_raise() -> None:
    guard = ScriptedGuard()

    class Catalogue:
        @guard.tool(targets=("names",))
        def drop(self, *names: str, cascade: bool = False, **options: int) -> int:
            return len(names) + cascade + len(options)

        @guard.tool
        def delete_asset(self, asset_id: str) -> None: ...

    assert Catalogue().drop("a", "b", retries=2) == 3
    proposed = guard.events[1]
    assert proposed.args == {"names": ["a", "b"], "cascade": False, "retries": 2}
    assert proposed.targets == ["names=a", "names=b"]
    with pytest.raises(TypeError, match="delete_asset"):
        Catalogue().delete_asset("a", "b", c=1)  # type: ignore[call-arg]  # the point of the test
    assert guard.events[-1].outcome is Outcome.ERROR


def test_a_generator_function_is_no_tool_and_an_option_that_cannot_be_is_refused() -> None:
    guard = ScriptedGuard()
    with pytest.raises(TypeError, match="expected a function or a coroutine function"):

        @guard.tool
        def rows(table: str) -> object:
            yield table

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"effect": "harmless"}, "effect: expected one of read, poll"),
        ({"effect": ["read"]}, r"effect: expected one of read, poll.* got \['read'\]"),
        ({"mode": "later"}, "mode: expected async or blocking"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            guard.action("delete_asset", **options)


class Deceptive(str):
    __slots__ = ()

    def __format__(self, _: str) -> str:
        raise RuntimeError("no")


def test_what_cannot_be_described_breaks_neither_a_read_nor_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    guard = ScriptedGuard(standing=(killed(ScopeKind.TOOL, "other"),))
    args = {"a": Deceptive("a")}
    assert attempt(guard, args=args) == "executed"
    assert "could not be checked" in caplog.text
    assert attempt(guard, "delete_asset", args=args) == "no_verdict"
    guard.kill()
    assert attempt(guard, args=args) == "session_killed_by_operator"


def test_what_is_written_is_what_a_checked_event_would_say() -> None:
    written: list[tuple[ActionEvent, bytes]] = []

    class Keeps(NoTransport):
        carries = True

        def publish(self, topic: str, value: bytes, *, must: bool = False) -> bool:  # noqa: ARG002 - a link's
            written.append((decode_event(value), value))
            return True

    guard = Guard(session_id="s1", bootstrap="nowhere", link=Keeps(), mission_id="m", parent_session_id="p")
    act = guard.tool(name="act", effect="write", targets=["a"], cost_usd=0.5)(lambda a, b: {"a": a, "b": b})
    act(1, "text")
    act("p\u00e9", [1, {"deep": None}])
    act("password=hunter2", "x" * 20_000)
    act({"token": "t"}, 2**70)
    fails = guard.tool(name="fails")(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fails()
    assert len(written) == 11
    for event, value in written:
        assert event == ActionEvent(**event.model_dump(exclude_unset=True))
        assert b"hunter2" not in value
    assert [event.usage.cost_usd for event, _ in written if event.usage is not None] == [0.5] * 4
    assert [event.args["a"] for event, _ in written[1:4:2] if event.args] == [1, "p\u00e9"]


def test_what_a_repetition_of_a_tool_is_is_reported_with_each_call() -> None:
    guard = ScriptedGuard()

    @guard.tool(loop_key=lambda args: f"order {args['order']}")
    def look_up(order: int, note: str) -> None: ...

    @guard.tool(loop_key=lambda args: args["missing"])
    def broken(order: int) -> None: ...

    look_up(7, "a")
    broken(7)
    attempt(guard, "search", loop_key="password=hunter22")
    attempt(guard, "search")
    assert [event.loop_key for event in of(guard, Kind.PROPOSED)] == [
        "order 7",
        None,
        "password=[redacted:password]",
        None,
    ]


def test_a_coroutine_function_stays_one_and_is_guarded() -> None:
    guard = ScriptedGuard(Level.ALLOW, Level.KILL)

    @guard.tool
    async def delete_asset(asset_id: str) -> str:
        await asyncio.sleep(0)
        return f"deleted {asset_id}"

    async def agent() -> str:
        async with guard:
            done = await delete_asset("a")
            with pytest.raises(Refused, match="haltline stopped this session"):
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
