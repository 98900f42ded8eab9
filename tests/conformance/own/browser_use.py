"""The traps of browser-use: steps of several actions, swallowed errors, other models, pages. Run with its driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from browser_use import ActionResult
from browser_use.agent.views import JudgementResult
from browser_use.beta.service import Agent as BetaAgent

from haltline.interventions.agent import Guard, Refused
from haltline.interventions.agent.integrations.browser_use import guarded
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from tests.conformance.cases import DELETE, asks, is_refused, is_stopped, work
from tests.conformance.drivers import browser_use as driver
from tests.conformance.harness import EFFECTS, INPUT, Call, Run, numbered, ran
from tests.conformance.own import own
from tests.http_server import served
from tests.interventions.agent.attempts import block, hint, of, outcomes

ON_PAGES = ("navigate", "click", "input", "extract", "write_file")
PAGE = b"""<html><title>Assets</title><body><h1>Assets</h1>
<button onclick="this.blur()">Delete fact_sales</button> <button>Details</button>
<input aria-label="Name"> <a href="/other">How to delete assets</a></body></html>"""


class Model(driver.Scripted):
    """Judges, and extracts from a page, as well."""

    async def ainvoke(self, messages: Any, output_format: Any = None, **options: Any) -> Any:
        if output_format is None or output_format is JudgementResult:
            self.run.turns += 1
            judged = JudgementResult(verdict=True, failure_reason="")
            return self.answer("the heading is Assets" if output_format is None else judged)
        return await super().ainvoke(messages, output_format, **options)


def run(guard: Guard, *turns: Any, effects: Any = None, model: Any = None, **options: Any) -> Run:
    model = (model or Model)(numbered(turns))
    tools = driver.tools_of(*ON_PAGES) if any(call.name in ON_PAGES for turn in turns for call in turn) else None
    agent = driver.agent_of(model, **({"tools": tools} if tools else {}), **options)
    guarded(agent, guard, effects={**EFFECTS, **(effects or {})})
    return driver.run_of(agent, model)


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)


@contextmanager
def page() -> Iterator[str]:
    with served(Pages) as address:
        yield f"{address}/assets?token=t0ken"


class OnPage(Model):
    """Clicks and types by what stands on the page: `index` is the text of an element."""

    async def ainvoke(self, messages: Any, output_format: Any = None, **options: Any) -> Any:
        self.nodes = await driver.browser().get_selector_map()
        return await super().ainvoke(messages, output_format, **options)

    def args_of(self, call: Call) -> str:
        named = call.args.get("index")
        found = [index for index, node in self.nodes.items() if named and named == node.get_meaningful_text_for_llm()]
        return super().args_of(Call(call.name, call.args | {"index": found[0]} if found else call.args))


def click(text: str) -> Call:
    return Call("click", {"index": text})


def only(path: str, verdict: Any) -> Verdict:
    return lambda event: verdict(event) if event.args == {"path": path} else Level.ALLOW


@own("of a step's actions none is made after one that is refused, nor after a kill, and each has its own hint")
def _() -> None:
    guard = ScriptedGuard(*[only("b", block)] * 4)
    found = run(guard, [work("a"), work("b"), work("c")], [work("d")])
    assert ran == ["work a", "work d"]
    is_refused("\n".join(found.read), "Not this.")
    assert found.read[0].startswith("done a")
    found = run(ScriptedGuard(*[Level.KILL] * 3), [work("a"), work("b"), work("c")], [work("d")])
    assert (ran[2:], found.turns) == ([], 1)
    is_stopped(found)

    def each(event: ActionEvent) -> Any:
        return decision(Level.NUDGE, event, message=f"Of {(event.args or {})['path']}.")

    found = run(ScriptedGuard(each, each), [work("a"), work("b")])
    assert found.read == ["done a\n\nOf a.\ndone b\n\nOf b."]


@own("refusals are none of the failures after which browser-use gives up, and errors are; a long one is read whole")
def _() -> None:
    limits = {"max_failures": 1, "final_response_after_failure": False}
    found = run(ScriptedGuard(*[block] * 3), *[[work("a")]] * 3, [work("b")], **limits)
    assert (ran, found.turns) == (["work b"], 5)
    found = run(ScriptedGuard(), [work("bad")], [work("c")], **limits)
    assert (ran, found.turns) == (["work b", "work bad"], 1)
    text = "Not this. " + "Because of that. " * 22
    found = run(ScriptedGuard(lambda event: decision(Level.BLOCK, event, message=text)), [work("a")])
    is_refused("\n".join(found.read), text.strip())


@own("a step that ends by its timeout while a call waits for a person makes no call, and the run goes on")
def _() -> None:
    guard = ScriptedGuard(asks, approval_wait_s=6)
    found = run(guard, [DELETE], [work("a")], step_timeout=1)
    assert (ran, found.stopped) == (["work a"], "")
    assert Outcome.OK not in outcomes(guard)[:-1]


@own("actions before the first turn are guarded, and so are those that are called by hand")
def _() -> None:
    first = [{"work": {"path": "first"}}]
    run(ScriptedGuard(block), [work("a")], initial_actions=first)
    assert ran == ["work a"]
    killed = ScriptedGuard(Level.KILL)
    found = run(killed, [work("b")], initial_actions=first)
    assert (ran, found.turns) == (["work a"], 0)
    is_stopped(found)
    agent = guarded(driver.agent_of(Model([])), ScriptedGuard(block))
    by_hand = driver.LOOP.run_until_complete(agent.tools.work(path="hand", browser_session=agent.browser_session))
    assert (ran, by_hand.error) == (["work a"], "Not made: scope_creep")


@own("a loop of the caller's own over single steps ends as a run does")
def _() -> None:
    guard = ScriptedGuard(Level.KILL)
    agent = guarded(driver.agent_of(Model(numbered([[work("a")], [work("b")]]))), guard)

    async def steps() -> str:
        await agent.browser_session.start()
        try:
            for _ in range(5):
                await agent.take_step()
        except Refused as refused:
            return refused.code
        finally:
            await agent.close()
        return "went on"

    assert driver.LOOP.run_until_complete(steps()).startswith("session_killed")
    assert ran == []


@own("a hint comes with a result that is read only once, and with none")
def _() -> None:
    guard = ScriptedGuard(hint, hint)
    model = Model(numbered([[Call("look")], [Call("nothing")]]))
    agent = driver.agent_of(model)

    @agent.tools.action("Looks.")
    def look() -> ActionResult:
        return ActionResult(extracted_content="rows", include_extracted_content_only_once=True)

    @agent.tools.action("Does nothing.")
    def nothing() -> None:
        pass

    agent._setup_action_models()
    found = driver.run_of(guarded(agent, guard), model)
    assert found.read == ["Think again.", "Think again."]
    assert [e.output_head for e in of(guard, Kind.COMPLETED)] == ["rows", None]


@own("done is no call, and a value of the agent's sensitive_data reaches the action, and no event")
def _() -> None:
    guard = ScriptedGuard()
    values = {"key": "plain-words-5", "https://*.example.org": {"other": "plain-words-6"}}
    run(guard, [work("<secret>key</secret>")], sensitive_data=values)
    assert ran == ["work plain-words-5"]
    published = "".join(event.to_json().decode() for event in guard.events)
    assert ("plain-words-5" in published, "done <secret>key</secret>" in published) == (False, True)
    contained = ScriptedGuard()
    contained.stand(ControlState.CONTAINED)
    assert run(contained).stopped == ""
    assert of(contained, Kind.PROPOSED) == []


@own("the turns of extraction and judge are counted, and a stopped session has neither")
def _() -> None:
    guard = ScriptedGuard()
    with page() as url:
        turns = [Call("navigate", {"url": url})], [Call("extract", {"query": "the heading"})]
        found = run(guard, *turns, use_judge=True)
    used = [e.usage for e in of(guard, Kind.MODEL_TURN) if e.usage is not None]
    assert found.turns == len(used) == 5
    assert {(u.input_tokens or 0) + (u.cache_read_tokens or 0) for u in used} == {INPUT}

    class Killing(Model):
        async def ainvoke(self, *args: Any, **options: Any) -> Any:
            guard.kill()  # during the last turn
            return await super().ainvoke(*args, **options)

    found = run(guard, model=Killing, use_judge=True)
    assert found.turns <= 1


@own("an agent whose actions run in another process is refused at once")
def _() -> None:
    error = ""
    try:
        guarded(object.__new__(BetaAgent), ScriptedGuard())
    except ValueError as raised:
        error = str(raised)
    assert error.startswith("agent: expected")


@own("an action has its page's host as target, a file its path, and a button that deletes is destructive")
def _() -> None:
    guard = ScriptedGuard()
    turns = [
        [Call("navigate", {"url": ""})],
        [click("Details")],
        [Call("input", {"index": "Name", "text": "x"})],
        [click("Delete fact_sales")],
        [Call("write_file", {"file_name": "a.md", "content": "x"})],
        [click("How to delete assets")],
    ]
    with page() as url:
        turns[0][0].args["url"] = url
        run(guard, *turns, model=OnPage)
        place = url.removeprefix("http://").partition("?")[0]
    found = [(e.action, e.effect, [t.rpartition(" ")[0] or t for t in e.targets]) for e in of(guard, Kind.PROPOSED)]
    assert found[4][2][0].startswith("path=/")
    assert found[4][2][0].endswith("/a.md")
    host = ["host=127.0.0.1"]
    assert found[:4] + found[5:] == [
        ("navigate", Effect.NETWORK, host),
        ("click", None, host),
        ("input", None, host),
        ("click", Effect.DESTRUCTIVE, [f"element={place} Delete fact_sales"]),
        ("click", None, host),
    ]
    assert outcomes(guard) == [Outcome.OK] * 6
