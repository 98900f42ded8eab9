"""The cases for every adapter. `needs` names the capabilities that a framework must have."""

import re
import threading
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from unittest import mock

from haltline.interventions.agent import Guard
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.interventions.state import texts
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import ApprovalState, Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from tests.conformance.harness import CACHED, END, INPUT, OUTPUT, Call, Run, Script, during, ran
from tests.interventions.agent.attempts import about_approval, block, hint, of, outcomes
from tests.waiting import wait_until


@dataclass
class Seen:
    """One case with one driver: what the test of it looks at."""

    run: Callable[..., Run]
    """Runs an agent of a guard, whose model makes the calls of each turn: `run(guard, *turns)`."""
    can: frozenset[str]
    delegate: Callable[[Guard, Script], Run]
    """Runs an agent that calls its subagent once, which plays the script."""

    def is_ended(self, run: Run, turns: Container[int] = range(99)) -> None:
        """Where a kill ends runs, this one was stopped after so many turns."""
        if "ends_the_run" in self.can:
            is_stopped(run)
            assert run.turns in turns

    @property
    def late(self) -> int:
        """1 where a stopped session is noticed a turn late."""
        return int("stops_before_a_turn" not in self.can)


@dataclass(frozen=True)
class Case:
    """`check` runs what it needs and asserts."""

    name: str
    check: Callable[[Seen], None]
    needs: frozenset[str] = frozenset()


CASES: dict[str, Case] = {}
_CODE: Final = re.compile(r"\b[a-z]+_[a-z_]+: ")
DELETE: Final = Call("delete_asset", {"asset_id": "fact_sales"})


def case(name: str, *needs: str) -> Callable[[Callable[[Seen], None]], Callable[[Seen], None]]:
    def add(check: Callable[[Seen], None]) -> Callable[[Seen], None]:
        assert name not in CASES
        CASES[name] = Case(name, check, frozenset(needs))
        return check

    return add


def work(path: str, **options: Any) -> Call:
    return Call("work", {"path": path}, **options)


def get(asset_id: str = "fact_sales") -> Call:
    return Call("get_asset", {"asset_id": asset_id})


def is_stopped(run: Run) -> None:
    assert "this session" in run.stopped, f"expected a run that was stopped for the session's state, got: {run}"


def is_refused(text: str, refusal: str) -> None:
    assert text.count(refusal) == 1, f"expected {refusal!r} once, got {text!r}"
    assert not _CODE.search(text), f"expected a text for a model, without a code for programs, got {text!r}"


@case("calls that are allowed are made in their order, and the model reads their results unchanged")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    asked = [work("a"), get("b"), Call("list_assets"), work("Ünïcode 名 🦊")]
    calls = [replace(call, id=f"call-{number}") for number, call in enumerate(asked)]
    run = seen.run(guard, *([call] for call in calls))
    results = ["done a", "rows of b", "fact_sales", "done Ünïcode 名 🦊"]
    assert (run.read, run.stopped) == (results, "")
    assert ran == ["work a", "get b", "list", "work Ünïcode 名 🦊"]
    proposed = of(guard, Kind.PROPOSED)
    assert [(e.action.rpartition("__")[2], e.args) for e in proposed] == [(call.name, call.args) for call in calls]
    assert [e.effect for e in proposed] == [Effect.WRITE, None, None, Effect.WRITE], "known by its name"
    assert outcomes(guard) == [Outcome.OK] * 4
    own = {e.call_id: e.output_head for e in of(guard, Kind.COMPLETED)}
    assert own == {e.call_id: result for e, result in zip(proposed, results, strict=True)}
    new = [e.output_novelty for e in of(guard, Kind.COMPLETED)]
    assert [one and one.results for one in new] == [0, 1, 2, 3]
    assert new[0] is not None
    assert (new[0].new_words, new[0].words) == (1, 1)
    if "call_ids" in seen.can:
        assert [e.call_id for e in proposed] == [call.id for call in calls]


@case("of a result of 100,000 characters the beginning is published")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    (read,) = seen.run(guard, [work("long")]).read
    assert "long_results" not in seen.can or read == "x" * 100_000
    (end,) = of(guard, Kind.COMPLETED)
    assert (end.output_bytes, 0 < len(end.output_head or "") < 600) == (100_000, True)


@case("what is no text, or nothing, is a result as any other, also with a hint", "any_result")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(hint, hint)
    run = seen.run(guard, [Call("count_rows")], [Call("touch")], [work("a")])
    assert ("rows" in run.read[0], "42" in run.read[0]) == (True, True)
    assert (ran, run.stopped) == (["count", "touch", "work a"], "")
    assert outcomes(guard) == [Outcome.OK] * 3
    if "reads_hints" in seen.can:
        assert "\n".join(run.read).count("Think again.") == 2


@case("the session begins once, before its first call, and ends with its guard")
def _(seen: Seen) -> None:
    with ScriptedGuard() as guard:
        seen.run(guard, [work("a")])
        seen.run(guard, [work("b")])
    kinds = [e.kind for e in guard.events]
    assert (kinds[0], kinds[-1]) == (Kind.SESSION_STARTED, Kind.SESSION_ENDED)
    assert not {kinds[0], kinds[-1]} & set(kinds[1:-1])


@case("refused calls are not made, the model reads why, and the run goes on after five of them")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(*[block] * 5)
    run = seen.run(guard, *([work(name)] for name in "abcdef"))
    for read in run.read[:5]:
        is_refused(read, "Not this.")
    assert (run.read[5], ran, run.stopped) == ("done f", ["work f"], "")
    assert outcomes(guard) == [*[Outcome.REFUSED] * 5, Outcome.OK]


@case("of calls in one turn each has its own verdict, and after a kill no other is made", "parallel_calls")
def _(seen: Seen) -> None:
    verdict: Verdict = lambda e: block(e) if e.args == {"path": "b"} else Level.ALLOW  # noqa: E731
    guard = ScriptedGuard(verdict, verdict, verdict)
    run = seen.run(guard, [work("a"), work("b"), work("c")])
    assert (run.read[0], run.read[2], sorted(ran)) == ("done a", "done c", ["work a", "work c"])
    is_refused(run.read[1], "Not this.")
    ran.clear()
    run = seen.run(ScriptedGuard(*[Level.KILL] * 3), [work("a"), work("b"), work("c")], [work("d")])
    assert ran == []
    seen.is_ended(run, {1})


@case("the third delete of the same thing is refused by the rules themselves, also in the second run of a session")
def _(seen: Seen) -> None:
    with Guard(mode="local", agent_id="cleaner") as guard:
        assert seen.run(guard, [DELETE], [DELETE]).stopped == ""
        run = seen.run(guard, *([DELETE] for _ in range(4)))
        assert ran == ["delete fact_sales"] * 2
        assert guard.killed
    seen.is_ended(run)


@case("without a verdict a read is made, and a delete where the settings say so")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(None, None), [DELETE], [get()])
    is_refused(run.read[0], texts.NO_VERDICT)
    assert (run.read[1], ran) == ("rows of fact_sales", ["get fact_sales"])
    assert seen.run(ScriptedGuard(None, fail_closed_from=None), [DELETE]).read == ["fact_sales still exists"]


@case("a contained session may look and change nothing")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    guard.stand(ControlState.CONTAINED)
    run = seen.run(guard, [get()], [work("a")])
    assert (ran, run.read[0]) == (["get fact_sales"], "rows of fact_sales")
    is_refused(run.read[1], "haltline allows this session only to read")


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("broken")


@case("a guard or an adapter that breaks lets no call pass")
def _(seen: Seen) -> None:
    with mock.patch.object(ScriptedGuard, "action", broken):
        is_refused("\n".join(seen.run(ScriptedGuard(), [work("a")]).read), texts.NOT_CHECKED)
    steps: dict[str, Any] = dict.fromkeys(("before", "before_async", "propose", "propose_async"), broken)
    with mock.patch.multiple(FrameworkSession, **steps):
        seen.run(ScriptedGuard(), [work("a")])
    assert ran == []


@case("arguments that are no JSON, or half a surrogate pair in them, let no refused call pass")
def _(seen: Seen) -> None:
    for call in (Call("work", '{"path": "a"'), work("a\ud83d")):
        seen.run(ScriptedGuard(block, block), [call])
    assert ran == []


def asks(event: ActionEvent) -> Any:
    return about_approval(event, ApprovalState.PENDING, Level.PAUSE)


@case("a paused call waits for a person, and is made once that person approves it, and refused when they reject it")
def _(seen: Seen) -> None:
    for state, level in ((ApprovalState.APPROVED, Level.ALLOW), (ApprovalState.REJECTED, Level.BLOCK)):
        guard = ScriptedGuard(asks, approval_wait_s=15)

        def answer(guard: ScriptedGuard = guard, state: ApprovalState = state, level: Level = level) -> None:
            wait_until(lambda: of(guard, Kind.PROPOSED), "it is asked", deadline_s=50)
            (proposal,) = of(guard, Kind.PROPOSED)
            assert "delete fact_sales" not in ran or state is ApprovalState.REJECTED, "it waits"
            guard.send(about_approval(proposal, state, level, decision_id="answer", code=state.value))

        thread = threading.Thread(target=answer)
        thread.start()
        run = seen.run(guard, [DELETE], [work("a")])
        thread.join()
        if state is ApprovalState.APPROVED:
            assert run.read[0] == "fact_sales still exists"
        else:
            is_refused(run.read[0], "A person has refused this call")
    assert ran == ["delete fact_sales", "work a", "work a"]


@case("a paused call that nobody answers is refused as one that waits")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(asks, approval_wait_s=0), [DELETE], [work("a")])
    is_refused(run.read[0], "it waits for a person's approval")
    assert ran == ["work a"]


@case("the text of each level that lets a call pass comes with its result, once", "reads_hints")
def _(seen: Seen) -> None:
    levels = (Level.NUDGE, Level.REINFORCE, Level.THROTTLE)
    texts = [f"Think again: {level.value}.\nThe original request: tidy up" for level in levels]
    says = [partial(decision, level, message=text) for level, text in zip(levels, texts, strict=True)]
    run = seen.run(ScriptedGuard(*says), [work("a")], [work("b")], [work("c")], [work("d")])
    for path, read, text in zip("abc", run.read, texts, strict=False):
        assert read.startswith(f"done {path}")
        is_refused(read, text)
        is_refused("\n".join(run.read), text)
    assert ran == ["work a", "work b", "work c", "work d"]


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


@case("a hint that arrives between two calls comes with the next one, once, also when that is refused", "reads_hints")
def _(seen: Seen) -> None:
    def late(guard: ScriptedGuard) -> None:
        """During the first call: the same hint, delivered twice."""
        for _ in range(2 if len(ran) == 1 else 0):
            guard.send(decision(Level.NUDGE, guard.events[0], message="Read the task again."))

    for verdict in (Level.ALLOW, block):
        guard = ScriptedGuard(Level.ALLOW, verdict)
        ran.clear()
        during[:] = [partial(late, guard)]
        run = seen.run(guard, [work("a")], [work("b")], [work("c")])
        is_refused("\n".join(run.read), "Read the task again.")
        if verdict is block:
            is_refused("\n".join(run.read), "Not this.")
        else:
            assert "Read the task again." in run.read[1]


@case("a call is made with the arguments of the decision, and refused where they cannot be changed")
def _(seen: Seen) -> None:
    other = partial(decision, Level.NUDGE, arguments={"path": "safe"})
    run = seen.run(ScriptedGuard(other), [work("/")], [work("b")])
    if "changes_arguments" in seen.can:
        assert (ran, run.read[0]) == (["work safe", "work b"], "done safe")
    else:
        assert ran == ["work b"]
        is_refused(run.read[0], 'This call is only allowed with other arguments: {"path": "safe"}')


@case("after a kill before the run nothing is called, and another session in the same process goes on")
def _(seen: Seen) -> None:
    guard, neighbour = ScriptedGuard(), ScriptedGuard(session_id="other")
    guard.kill()
    seen.is_ended(seen.run(guard, [work("a")], [work("b")]), range(1 + seen.late))
    assert seen.run(neighbour, [work("b")]).read == ["done b"]
    seen.run(guard, [work("c")])
    assert ran == ["work b"]
    assert {e.session_id for e in neighbour.events} == {"other"}


@case("a kill as the verdict of the second call ends the run")
def _(seen: Seen) -> None:
    run = seen.run(ScriptedGuard(Level.ALLOW, Level.KILL), *([work(name)] for name in "abcd"))
    assert ran == ["work a"]
    seen.is_ended(run, {2})


@case("a kill or a freeze while a tool runs lets no further call pass, and a kill ends the run after it")
def _(seen: Seen) -> None:
    for stop in (ScriptedGuard.kill, partial(ScriptedGuard.stand, state=ControlState.FROZEN)):
        guard = ScriptedGuard()
        ran.clear()
        during[:] = [partial(stop, guard)]
        run = seen.run(guard, [work("a")], [work("b")], [work("c")])
        assert (ran, of(guard, Kind.COMPLETED)[0].outcome) == (["work a"], Outcome.OK)
        if stop is ScriptedGuard.kill:
            seen.is_ended(run, range(2 + seen.late))
        elif not seen.late:
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
    seen.is_ended(run)


@case("the session of a subagent is below its agent's, and a kill of that stops it", "subagents")
def _(seen: Seen) -> None:
    guard = ScriptedGuard(session_id="above", agent_id="a")
    during.append(lambda: guard.kill() if len(ran) == 2 else None)
    run = seen.delegate(guard, [[work("a")], [work("b")], [work("c")]])
    assert ran == ["work a", "work b"]
    is_stopped(run)
    below = [e for e in of(guard, Kind.COMPLETED) if e.action.endswith("work")]
    assert {e.session_id for e in below} != {"above"}
    assert {(e.parent_session_id, e.root_session_id) for e in below} == {("above", "above")}
    assert all(e.agent_id.startswith("a/") for e in below)


@case("a call that fails has one end with its error as outcome, and the model reads it")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    run = seen.run(guard, [work("bad")], [work("a")])
    ends = of(guard, Kind.COMPLETED)
    if "reports_errors" in seen.can:
        assert ends[0].outcome is Outcome.ERROR
        assert "no such path" in (ends[0].error or "") or "error_texts" not in seen.can
    if "reads_errors" in seen.can:
        assert (run.read[1], ran) == ("done a", ["work bad", "work a"])
    assert len(ends) == len({end.call_id for end in ends}) == 1 + ("reads_errors" in seen.can)


@case("the tokens of each turn are counted", "usage")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    run = seen.run(guard, [work("a")], [work("b")])
    used = [e.usage for e in of(guard, Kind.MODEL_TURN) if e.usage is not None]
    assert run.turns == len(used) >= 3
    assert {u.output_tokens for u in used} == {OUTPUT}
    assert {(u.input_tokens or 0) + (u.cache_read_tokens or 0) for u in used} == {INPUT}
    if "cached_tokens" in seen.can:
        assert {(u.input_tokens, u.cache_read_tokens) for u in used} == {(INPUT - CACHED, CACHED)}, used


@case("what the model writes is published", "model_output")
def _(seen: Seen) -> None:
    guard = ScriptedGuard()
    seen.run(guard, [work("a")])
    assert END in "\n".join(e.output_head or "" for e in of(guard, Kind.MODEL_TURN))


@case("a secret in the arguments reaches the tool, and no event; of no characters no result is published")
def _(seen: Seen) -> None:
    guard, terse, secret = ScriptedGuard(), ScriptedGuard(max_output_chars=0), "AKIAIOSFODNN7EXAMPLE"
    run = seen.run(guard, [work(secret)])
    assert (run.read, ran) == ([f"done {secret}"], [f"work {secret}"])
    assert len(of(guard, Kind.COMPLETED)) == 1
    assert secret not in "".join(event.to_json().decode() for event in guard.events)
    seen.run(terse, [get("x")])
    (end,) = of(terse, Kind.COMPLETED)
    assert (end.output_head, end.outcome) == (None, Outcome.OK)
    assert end.output_digest is not None
