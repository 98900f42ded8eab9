import asyncio
import os
import signal
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from haltline.interventions.agent import ClientRules, Guard, Level, Refused
from haltline.interventions.agent.testing import ScriptedGuard, decision
from haltline.interventions.agent.transport.local_decider import LocalDecider
from haltline.interventions.author_rules.evaluation import Rules
from haltline.schemas.author_rules import Arguments, Constraint, LoopRule, RateLimit
from haltline.schemas.events import Kind, Outcome
from tests.interventions.agent.attempts import attempt, of, outcomes

AT_MOST_500 = {"pay": (Arguments(properties={"usd": Constraint(maximum=500)}),)}


def code_of(call: Callable[[], object]) -> str | None:
    try:
        call()
    except Refused as refused:
        return refused.code
    return None


def test_what_a_call_really_cost_counts_and_the_next_one_is_warned() -> None:
    warned: list[str] = []
    rules = ClientRules(run_budget=1.0)
    guard = ScriptedGuard(rules=rules, on_advice=lambda advice: warned.append(advice.code))

    def ask() -> None:
        with guard.action("ask", cost_usd=0.1) as action:
            action.cost(0.9)

    ask()
    assert warned == []
    assert code_of(ask) is None
    assert warned == ["budget_warning"]
    assert code_of(ask) == "budget_exceeded"
    guard.begin_run()
    assert code_of(ask) is None


def test_a_call_that_the_worker_refuses_costs_nothing_and_counts_for_no_rate() -> None:
    rules = ClientRules(session_budget=1.0, rate_limits={"pay": (RateLimit(max_count=1, window_seconds=60),)})
    guard = ScriptedGuard(Level.BLOCK, rules=rules)
    pay = guard.tool(name="get_paid", cost_usd=1.0)(lambda: "paid")
    assert (code_of(pay), guard.spent_usd) == ("block", 0)
    assert [code_of(pay), code_of(pay)] == [None, "budget_exceeded"]


def test_the_harder_of_both_holds() -> None:
    warns, denies = (ClientRules(denied_actions=("drop_*",), strict_mode=strict) for strict in (False, True))
    killed = "session_killed_loop_guard"
    assert attempt(ScriptedGuard(Level.KILL, rules=warns), "drop_table") == killed, "the author's rules only warn"
    guard = ScriptedGuard(rules=denies)
    assert attempt(guard, "drop_table") == "denied_action", "the worker allows it"
    guard.kill()
    assert attempt(guard, "drop_table") == "session_killed_by_operator"


def test_a_call_that_is_made_once_gives_its_result_again() -> None:
    made: list[str] = []
    guard = ScriptedGuard()

    @guard.tool(once=["order"])
    def refund(order: str, note: str = "") -> str:
        made.append(order)
        if order == "bad":
            raise RuntimeError("no such order")
        return f"refunded {order}"

    assert [refund("a"), refund("a", note="again"), refund("b")] == ["refunded a", "refunded a", "refunded b"]
    for _ in range(2):
        with pytest.raises(RuntimeError):
            refund("bad")
    assert made == ["a", "b", "bad", "bad"], "what failed is made again"
    replayed = of(guard, Kind.COMPLETED)[1]
    assert (replayed.outcome, replayed.error) == (Outcome.REFUSED, "idempotent_replay")
    guard.kill()
    assert code_of(lambda: refund("a")) == "session_killed_by_operator", "a stopped session is given nothing"


def test_of_two_at_the_same_time_one_is_made() -> None:
    guard = ScriptedGuard()
    begun, go_on = asyncio.Event(), asyncio.Event()

    @guard.tool(once=lambda args: [args["order"]])
    async def refund(order: str) -> str:
        begun.set()
        await go_on.wait()
        return order

    async def both() -> tuple[str, str]:
        first = asyncio.create_task(refund("a"))
        await begun.wait()
        with pytest.raises(Refused) as refused:
            await refund("a")
        go_on.set()
        assert refused.value.code == "idempotency_in_flight"
        return await first, await refund("a")

    assert asyncio.run(both()) == ("a", "a")


def nested(depth: int) -> object:
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("body", [nested(1000), 10**5000], ids=["nested too deeply", "a number too long to write"])
def test_no_argument_is_a_way_around_the_rules(body: object) -> None:
    loop = LoopRule(threshold=5, window_seconds=10)
    guard = ScriptedGuard(rules=ClientRules(denied_actions=("send_*",), loop_rules=(loop,)))
    for name in ("send_mail", "mcp__post__send_mail", "post.sendMail"):
        assert attempt(guard, name, args={"body": body}) in {"denied_action", "rules_not_checked"}
    assert attempt(guard, "look", args={"body": body}) == "executed"


def test_a_rule_that_fails_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(Rules, "_looping", broken)
    strict = ScriptedGuard(rules=ClientRules(loop_rules=(LoopRule(),), denied_actions=("send",)))
    assert [attempt(strict, name) for name in ("look", "send")] == ["rules_not_checked", "denied_action"]
    assert outcomes(strict) == [Outcome.REFUSED] * 2
    reported = ScriptedGuard(rules=ClientRules(loop_rules=(LoopRule(),), strict_mode=False))
    assert attempt(reported, "look") == "executed"


def test_a_result_is_given_again_for_the_same_arguments_only() -> None:
    guard = ScriptedGuard()
    place = guard.tool(name="place", once=["order"])(lambda order: order.number)
    assert [place(SimpleNamespace(number=number)) for number in (1, 2)] == [1, 2]
    charge = guard.tool(name="charge", once=["card_token"])(lambda card_token: [card_token])
    first = charge("tok_alice")
    first.append("changed by who got it")
    assert charge("tok_bob") == ["tok_bob"]
    charge("tok_alice").append("changed again")
    assert charge("tok_alice") == ["tok_alice"]


@pytest.mark.parametrize(
    ("usd", "strict", "code"),
    [(9999, True, "argument_constraint_violated"), (9999, False, None), (9, True, None)],
    ids=["beyond the limit is refused", "or only told", "within it goes on"],
)
def test_the_rules_hold_for_changed_arguments(usd: int, strict: bool, code: str | None) -> None:
    rules = ClientRules(argument_constraints=AT_MOST_500, strict_mode=strict)
    paid: list[int] = []
    guard = ScriptedGuard(lambda e: decision(Level.NUDGE, e, arguments={"usd": usd}), rules=rules)
    pay = guard.tool(name="pay")(lambda usd: paid.extend([usd]))
    assert code_of(lambda: pay(100)) == code
    assert paid == ([] if code else [usd])


def test_a_forked_child_goes_on_with_what_was_counted_and_waits_for_no_thread_of_its_parent() -> None:
    guard = Guard(session_id="s1", mode="local", rules=ClientRules(session_budget=1.0, prices={"buy": 1.0}))
    buy = guard.tool(name="buy")(lambda: "bought")
    look = guard.tool(name="look")(lambda: "seen")
    assert buy() == "bought"
    decider = guard._gate.decider
    assert isinstance(decider, LocalDecider)
    with decider._tree.lock, guard._gate.rules._lock:  # as another thread may
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if code_of(buy) == "budget_exceeded" and look() == "seen" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
