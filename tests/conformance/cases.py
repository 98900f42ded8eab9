"""What holds for every adapter, as a table. `needs` names what a framework must be capable of."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.framework_session import FrameworkSession
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import ApprovalState, Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Novelty, Outcome
from tests.builders import about_approval
from tests.conformance.harness import CACHED, END, INPUT, OUTPUT, Call, Run, Script, during, ran

SECRET: Final = "AKIAIOSFODNN7EXAMPLE"


@dataclass
class Seen:
    """One case with one driver: what the test of it looks at."""

    drive: Callable[[Guard, Script], Run]
    can: frozenset[str]
    delegate: Callable[[Guard, Script], Run]
    """Runs an agent that calls its subagent once, which plays the script."""

    def run(self, guard: Guard, *turns: Sequence[Call]) -> Run:
        return self.drive(guard, turns)


@dataclass(frozen=True)
class Case:
    """`check` runs what it needs and asserts."""

    name: str
    check: Callable[[Seen], None]
    needs: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()
    """Capabilities without which the case is about something."""


CASES: dict[str, Case] = {}


def case(name: str, *needs: str, unless: str = "") -> Callable[[Callable[[Seen], None]], Callable[[Seen], None]]:
    def add(check: Callable[[Seen], None]) -> Callable[[Seen], None]:
        assert name not in CASES
        CASES[name] = Case(name, check, frozenset(needs), frozenset(filter(None, [unless])))
        return check

    return add


def work(path: str, **options: Any) -> Call:
    return Call("work", {"path": path}, **options)


def delete(asset_id: str = "fact_sales") -> Call:
    return Call("delete_asset", {"asset_id": asset_id})


def get(asset_id: str = "fact_sales") -> Call:
    return Call("get_asset", {"asset_id": asset_id})


def block(event: ActionEvent) -> Any:
    return decision(Level.BLOCK, event, code="scope_creep", message="Not this.")


def hint(event: ActionEvent) -> Any:
    return decision(Level.NUDGE, event, message="Think again.")


def of(guard: ScriptedGuard, kind: Kind) -> list[ActionEvent]:
    return [event for event in guard.events if event.kind is kind]


def outcomes(guard: ScriptedGuard) -> list[Outcome | None]:
    return [event.outcome for event in of(guard, Kind.COMPLETED)]


def tool_of(event: ActionEvent) -> str:
    """Its name without the server's, where tools are those of an MCP server."""
    return (event.action or "").rpartition("__")[2]


def is_stopped(run: Run) -> None:
    assert "session_" in run.stopped, f"expected a run that was stopped for the session's state, got: {run}"


def is_refused(text: str, refusal: str) -> None:
    assert text.count(refusal) == 1, f"expected {refusal!r} once, got {text!r}"


# What is allowed.


@case("a call that is allowed is made, and the model reads its result unchanged")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    run = seen.run(guard, [work("a")])
    assert (run.read, ran, run.stopped) == (["done a"], ["work a"], "")
    assert outcomes(guard) == [Outcome.OK]
    (end,) = of(guard, Kind.COMPLETED)
    assert (end.output_head, end.output_novelty) == ("done a", Novelty(new_words=1, words=1, results=0))


@case("calls of several turns are made in their order")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    run = seen.run(guard, [work("a")], [get("b")], [work("c")])
    assert run.read == ["done a", "rows of b", "done c"]
    assert [tool_of(e) for e in of(guard, Kind.PROPOSED)] == ["work", "get_asset", "work"]
    assert outcomes(guard) == [Outcome.OK] * 3


@case("a tool without arguments is guarded and made")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    assert seen.run(guard, [Call("list_assets")]).read == ["fact_sales"]
    assert [(tool_of(e), e.args) for e in of(guard, Kind.PROPOSED)] == [("list_assets", {})]


@case("arguments and results beyond ASCII arrive as they are")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    assert seen.run(guard, [work("Ünïcode 名 🦊")]).read == ["done Ünïcode 名 🦊"]
    assert of(guard, Kind.PROPOSED)[0].args == {"path": "Ünïcode 名 🦊"}


@case("of a result of 100,000 characters the beginning is published")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    (read,) = seen.run(guard, [work("long")]).read
    assert "long_results" not in seen.can or read == "x" * 100_000
    (end,) = of(guard, Kind.COMPLETED)
    assert end.output_bytes == 100_000
    assert end.output_head is not None
    assert len(end.output_head) < 600


@case("a result that is no text reaches the model", "any_result")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    (read,) = seen.run(guard, [Call("count_rows")]).read
    assert "rows" in read
    assert "42" in read
    assert outcomes(guard) == [Outcome.OK]


@case("a tool that returns nothing ends as any other", "any_result")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    run = seen.run(guard, [Call("touch")], [work("a")])
    assert (ran, run.stopped) == (["touch", "work a"], "")
    assert outcomes(guard) == [Outcome.OK, Outcome.OK]


@case("what a tool does is known by its name where the effects say so")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("a")], [get("b")])
    assert [e.effect for e in of(guard, Kind.PROPOSED)] == [Effect.WRITE, None]


@case("calls have the ids that the framework gives them", "call_ids")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("a", id="call-7")], [work("b", id="call-8")])
    ids = ["call-7", "call-8"]
    assert [e.call_id for e in of(guard, Kind.PROPOSED)] == ids
    assert [e.call_id for e in of(guard, Kind.COMPLETED)] == ids


@case("each result is that of its own call")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("a")], [work("b")], [work("c")])
    proposed = {e.call_id: (e.args or {})["path"] for e in of(guard, Kind.PROPOSED)}
    assert len(proposed) == 3
    assert {e.call_id: e.output_head for e in of(guard, Kind.COMPLETED)} == {
        call_id: f"done {path}" for call_id, path in proposed.items()
    }


@case("the session begins once, before its first call, and ends with its guard")
def _(seen: Seen) -> None:
    with ScriptedGuard() as guard:
        seen.run(guard, [work("a")])
        seen.run(guard, [work("b")])
    kinds = [e.kind for e in guard.events]
    assert kinds[0] is Kind.SESSION_STARTED
    assert kinds[-1] is Kind.SESSION_ENDED
    assert (kinds.count(Kind.SESSION_STARTED), kinds.count(Kind.SESSION_ENDED)) == (1, 1)


# What is refused.


@case("a refused call is not made, and the model reads why")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(block)
    run = seen.run(guard, [work("a")])
    assert ran == []
    assert len(run.read) == 1
    is_refused(run.read[0], "scope_creep: Not this.")
    assert outcomes(guard) == [Outcome.REFUSED]


@case("after a refused call the run goes on")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(block)
    run = seen.run(guard, [work("a")], [work("b")])
    is_refused("\n".join(run.read), "scope_creep: Not this.")
    assert (run.read[1], ran, run.stopped) == ("done b", ["work b"], "")


@case("five refused calls one after the other do not end the run")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(*[block] * 5)
    run = seen.run(guard, *([work(name)] for name in "abcdef"))
    assert (run.read[5], ran, run.stopped) == ("done f", ["work f"], "")


@case("of calls in one turn each has its own verdict", "parallel_calls")
def _(seen: Seen) -> None:
    verdict: Verdict = lambda e: block(e) if e.args == {"path": "b"} else Level.ALLOW  # noqa: E731
    guard = ScriptedGuard(verdict, verdict, verdict)
    run = seen.run(guard, [work("a"), work("b"), work("c")])
    assert (run.read[0], run.read[2], sorted(ran)) == ("done a", "done c", ["work a", "work c"])
    is_refused(run.read[1], "scope_creep: Not this.")


@case("the third delete of the same thing is refused by the rules themselves")
def _(seen: Seen) -> None:
    with Guard(mode="local", agent_id="cleaner") as guard:
        run = seen.run(guard, *([delete()] for _ in range(6)))
        assert ran == ["delete fact_sales"] * 2
        assert guard.killed
    if "ends_the_run" in seen.can:
        is_stopped(run)


@case("the second run of a session goes on where the first one ended")
def _(seen: Seen) -> None:
    with Guard(mode="local", agent_id="cleaner") as guard:
        assert seen.run(guard, [delete()], [delete()]).stopped == ""
        seen.run(guard, [delete()])
        assert guard.killed
    assert ran == ["delete fact_sales"] * 2


@case("a delete without a verdict is refused while the worker is away")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(None)
    run = seen.run(guard, [delete()])
    assert ran == []
    is_refused(run.read[0], "no_verdict: ")


@case("a read without a verdict is made while the worker is away")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(None)
    assert seen.run(guard, [get()]).read == ["rows of fact_sales"]


@case("a delete without a verdict is made where the settings say so")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(None, fail_closed_from=None)
    assert seen.run(guard, [delete()]).read == ["fact_sales still exists"]


@case("a contained session may look and change nothing")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    guard.stand(ControlState.CONTAINED)
    run = seen.run(guard, [get()], [work("a")])
    assert ran == ["get fact_sales"]
    assert run.read[0] == "rows of fact_sales"
    is_refused(run.read[1], "session_contained_by_operator: ")


@case("a guard that breaks lets no call pass")
def _(seen: Seen) -> None:
    class Broken(ScriptedGuard):
        def action(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("broken")

    guard = Broken()
    run = seen.run(guard, [work("a")])
    assert ran == []
    is_refused("\n".join(run.read), "not_checked: ")


@case("an adapter that breaks lets no call pass")
def _(seen: Seen) -> None:
    def broken(self: FrameworkSession, *args: Any, **options: Any) -> Any:
        raise RuntimeError("broken")

    names = ("before", "before_async", "propose", "propose_async")
    kept = {name: getattr(FrameworkSession, name) for name in names}
    try:
        for name in names:
            setattr(FrameworkSession, name, broken)
        seen.run(ScriptedGuard(), [work("a")])
    finally:
        for name, function in kept.items():
            setattr(FrameworkSession, name, function)
    assert ran == []


@case("arguments that are no JSON let no refused call pass")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(block, block)
    seen.run(guard, [Call("work", '{"path": "a"')])
    assert ran == []


@case("half a surrogate pair in the arguments lets no refused call pass")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(block, block)
    seen.run(guard, [work("a\ud83d")])
    assert ran == []


# Waiting for a person.


def asks(event: ActionEvent) -> Any:
    return about_approval(event, ApprovalState.PENDING, Level.PAUSE)


def answered(guard: ScriptedGuard, state: ApprovalState, level: Level) -> threading.Thread:
    """Answers the first request, a moment after the call has begun to wait."""

    def answer() -> None:
        until = time.monotonic() + 10
        while not of(guard, Kind.PROPOSED) and time.monotonic() < until:
            time.sleep(0.01)
        assert ran == []
        guard.send(about_approval(of(guard, Kind.PROPOSED)[0], state, level, decision_id="answer", code=state.value))

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


@case("a paused call waits for a person, and is made once that person approves it")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(asks, approval_wait_s=15)
    thread = answered(guard, ApprovalState.APPROVED, Level.ALLOW)
    run = seen.run(guard, [delete()])
    thread.join()
    assert (run.read, ran) == (["fact_sales still exists"], ["delete fact_sales"])


@case("a paused call that a person rejects is refused")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(asks, approval_wait_s=15)
    thread = answered(guard, ApprovalState.REJECTED, Level.BLOCK)
    run = seen.run(guard, [delete()], [work("a")])
    thread.join()
    is_refused(run.read[0], "rejected: ")
    assert ran == ["work a"]


@case("a paused call that nobody answers is refused as one that waits")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(asks, approval_wait_s=0)
    run = seen.run(guard, [delete()], [work("a")])
    is_refused(run.read[0], "approval_pending: ")
    assert ran == ["work a"]


# Hints.


def hint_of(level: Level) -> Callable[[Seen], None]:
    def check(seen: Seen) -> None:
        message = "Think again.\nThe original request: tidy up"
        run = seen.run(ScriptedGuard(lambda e: decision(level, e, message=message)), [work("a")], [work("b")])
        assert run.read[0].startswith("done a")
        is_refused("\n".join(run.read), message)
        assert ran == ["work a", "work b"]

    return check


for one in (Level.NUDGE, Level.REINFORCE, Level.THROTTLE):
    case(f"the text of {one.value} comes with the result of its call, once", "reads_hints")(hint_of(one))


@case("a hint comes with a result that is no text", "reads_hints", "any_result")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(hint), [Call("count_rows")], [work("a")])
    assert "42" in run.read[0]
    is_refused("\n".join(run.read), "Think again.")


@case("a hint comes with nothing as a result", "reads_hints", "any_result")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(hint), [Call("touch")], [work("a")])
    is_refused("\n".join(run.read), "Think again.")


@case("the hint of a call that fails comes with its error or the next result", "reads_hints", "reads_errors")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(hint), [work("bad")], [work("a")])
    is_refused("\n".join(run.read), "Think again.")
    assert ran == ["work bad", "work a"]


@case("hints of calls in one turn come with their own results", "reads_hints", "hints_by_call", "parallel_calls")
def _(seen: Seen) -> None:
    def own(event: ActionEvent) -> Any:
        return decision(Level.NUDGE, event, message=f"Of {(event.args or {})['path']}.")

    run = seen.run(ScriptedGuard(own, own), [work("a"), work("b")])
    assert [read.split("\n")[0] for read in run.read] == ["done a", "done b"]
    is_refused(run.read[0], "Of a.")
    is_refused(run.read[1], "Of b.")


@case("a hint that arrives between two calls comes with the next one, once", "reads_hints")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    during.append(lambda: late(guard) if len(ran) == 1 else None)
    run = seen.run(guard, [work("a")], [work("b")], [work("c")])
    is_refused("\n".join(run.read), "Read the task again.")
    assert "Read the task again." in run.read[1]


@case("a hint that arrives between two calls comes with the refusal of the next one", "reads_hints")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(Level.ALLOW, block)
    during.append(lambda: late(guard) if len(ran) == 1 else None)
    run = seen.run(guard, [work("a")], [work("b")], [work("c")])
    is_refused("\n".join(run.read), "scope_creep: Not this.")
    is_refused("\n".join(run.read), "Read the task again.")


def late(guard: ScriptedGuard) -> None:
    """The same hint, delivered twice."""
    for _ in range(2):
        guard.send(decision(Level.NUDGE, guard.events[0], message="Read the task again."))


# Changed arguments.


def other(event: ActionEvent) -> Any:
    return decision(Level.NUDGE, event, arguments={"path": "safe"})


@case("a call is made with the arguments of the decision", "changes_arguments")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(other)
    run = seen.run(guard, [work("/")], [work("b")])
    assert (ran, run.read[0]) == (["work safe", "work b"], "done safe")


@case("a call that is only allowed with other arguments is refused", unless="changes_arguments")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(other), [work("/")], [work("b")])
    assert ran == ["work b"]
    is_refused(run.read[0], 'This call is only allowed with other arguments: {"path": "safe"}')


# What ends the run.


@case("after a kill before the run nothing is called")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    guard.kill()
    run = seen.run(guard, [work("a")], [work("b")])
    assert ran == []
    if "ends_the_run" in seen.can:
        is_stopped(run)
        assert run.turns <= (0 if "stops_before_a_turn" in seen.can else 1)


@case("a kill as the verdict of the second call ends the run")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(Level.ALLOW, Level.KILL), *([work(name)] for name in "abcd"))
    assert ran == ["work a"]
    if "ends_the_run" in seen.can:
        is_stopped(run)
        assert run.turns == 2


@case("a kill while a tool runs ends the run after it")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    during.append(guard.kill)
    run = seen.run(guard, [work("a")], [work("b")], [work("c")])
    assert ran == ["work a"]
    assert of(guard, Kind.COMPLETED)[0].outcome is Outcome.OK
    if "ends_the_run" in seen.can:
        is_stopped(run)
        assert run.turns <= (1 if "stops_before_a_turn" in seen.can else 2)


@case("after a kill no other call of the same turn is made", "parallel_calls")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(*[Level.KILL] * 3)
    run = seen.run(guard, [work("a"), work("b"), work("c")], [work("d")])
    assert ran == []
    if "ends_the_run" in seen.can:
        is_stopped(run)
        assert run.turns == 1


@case("a freeze while a tool runs lets no further call pass")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    during.append(lambda: guard.stand(ControlState.FROZEN))
    run = seen.run(guard, [work("a")], [work("b")], [work("c")])
    assert ran == ["work a"]
    if "stops_before_a_turn" in seen.can:
        is_stopped(run)


@case("a kill of the session above ends the run")
def _(seen: Seen) -> None:
    parent = ScriptedGuard()
    with parent.subagent(session_id="below") as guard:
        during.append(parent.kill)
        run = seen.run(guard, [work("a")], [work("b")], [work("c")])
    assert ran == ["work a"]
    (end,) = of(parent, Kind.COMPLETED)[:1]
    assert (end.session_id, end.parent_session_id, end.root_session_id) == ("below", "scripted", "scripted")
    if "ends_the_run" in seen.can:
        is_stopped(run)


@case("the session of a subagent is below its agent's, and a kill of that stops it", "subagents")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(session_id="above", agent_id="a")
    during.append(lambda: guard.kill() if len(ran) == 2 else None)
    run = seen.delegate(guard, [[work("a")], [work("b")], [work("c")]])
    assert ran == ["work a", "work b"]
    is_stopped(run)
    below = [e for e in of(guard, Kind.COMPLETED) if tool_of(e) == "work"]
    assert {e.session_id for e in below} != {"above"}
    assert {(e.parent_session_id, e.root_session_id) for e in below} == {("above", "above")}
    assert all(e.agent_id.startswith("a/") for e in below)


@case("a kill of one session ends no other one in the same process")
def _(seen: Seen) -> None:
    guard, neighbour = ScriptedGuard(), ScriptedGuard(session_id="other")
    guard.kill()
    seen.run(guard, [work("a")])
    assert seen.run(neighbour, [work("b")]).read == ["done b"]
    seen.run(guard, [work("c")])
    assert ran == ["work b"]
    assert {e.session_id for e in neighbour.events} == {"other"}


# Errors of tools.


@case("the model reads a tool's error, and the run goes on", "reads_errors")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(), [work("bad")], [work("a")])
    assert (run.read[1], ran) == ("done a", ["work bad", "work a"])


@case("a tool's error is the outcome of its call", "reports_errors")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("bad")])
    (end,) = of(guard, Kind.COMPLETED)
    assert end.outcome is Outcome.ERROR
    assert "no such path" in (end.error or "")


@case("a call that fails has one end")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("bad")])
    assert len(of(guard, Kind.COMPLETED)) == 1


# Turns of the model.


@case("the tokens of each turn are counted", "usage")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    run = seen.run(guard, [work("a")], [work("b")])
    used = [e.usage for e in of(guard, Kind.MODEL_TURN) if e.usage is not None]
    assert run.turns == len(used) >= 3
    assert {u.output_tokens for u in used} == {OUTPUT}
    assert {(u.input_tokens or 0) + (u.cache_read_tokens or 0) for u in used} == {INPUT}


@case("tokens that came from the cache are counted apart", "usage", "cached_tokens")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("a")])
    used = [e.usage for e in of(guard, Kind.MODEL_TURN) if e.usage is not None]
    assert {(u.input_tokens, u.cache_read_tokens) for u in used} == {(INPUT - CACHED, CACHED)}, used


@case("what the model writes is published", "model_output")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("a")])
    assert END in "\n".join(e.output_head or "" for e in of(guard, Kind.MODEL_TURN))


# What leaves the process.


@case("a secret in the arguments reaches the tool, and no event")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    run = seen.run(guard, [work(SECRET)])
    assert (run.read, ran) == ([f"done {SECRET}"], [f"work {SECRET}"])
    assert len(of(guard, Kind.COMPLETED)) == 1
    assert SECRET not in "".join(event.to_json().decode() for event in guard.events)


@case("with an output of no characters no result is published")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(max_output_chars=0)
    seen.run(guard, [get("x")])
    (end,) = of(guard, Kind.COMPLETED)
    assert (end.output_head, end.outcome) == (None, Outcome.OK)
    assert end.output_digest is not None
