"""The cases for guards over Kafka in Python and in TypeScript, with a broker that can be unavailable.

`DRIVERS` are the two; what one of them has not is in its `LACKS`, as with the adapters of frameworks.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from haltline.interventions.agent import Guard, Refused
from haltline.interventions.agent.checkpoints import CallbackCheckpoints
from haltline.interventions.agent.rules.settings import ClientRules
from haltline.schemas.control import Stage
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Kind, Outcome, Usage
from tests.clients.kafka_agent import Agent, Raised
from tests.interventions.agent.attempts import guard_of
from tests.interventions.agent.stand_in import Say, StandIn, decision
from tests.mock_cluster import MockCluster
from tests.waiting import wait_until


class Driven(Protocol):
    """One session."""

    def call(self, name: str, **args: Any) -> str:
        """`executed`, or the code of the refusal and the text for the model."""

    def replay(self, key: str) -> int:
        """How often a call was made that was tried twice with this key."""

    def spend(self, usd: float) -> None: ...
    def begin_run(self) -> None: ...
    def checkpoint(self, name: str) -> bool: ...
    def is_away(self) -> bool: ...


class Driver(Protocol):
    """Begins sessions; an option is a field of GuardSettings, `work` a file whose states are checkpoints."""

    LACKS: frozenset[str]

    def session(
        self, bootstrap: str | None, work: Path | None = None, **options: Any
    ) -> AbstractContextManager[Driven]:
        """A context manager of Driven. `bootstrap` None: mode local."""


class _PythonSession:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def call(self, name: str, **args: Any) -> str:
        try:
            with self._guard.action(name, args=args):
                return "executed"
        except Refused as refused:
            return f"{refused.code}: {refused.reason}"

    def replay(self, key: str) -> int:
        made = 0
        for _ in range(2):
            with self._guard.action("send", key=key) as action:
                made += not action.replayed
        return made

    def spend(self, usd: float) -> None:
        self._guard.model_turn(usage=Usage(cost_usd=usd))

    def begin_run(self) -> None:
        self._guard.begin_run()

    def checkpoint(self, name: str) -> bool:
        return self._guard.keep(name) is not None

    def is_away(self) -> bool:
        return self._guard.degraded == "the broker is unavailable"


class Python:
    LACKS = frozenset[str]()

    @contextmanager
    def session(self, bootstrap: str | None, work: Path | None = None, **options: Any) -> Iterator[Driven]:
        def keep(name: str) -> None:
            work and work.with_suffix(f".{name}").write_bytes(work.read_bytes())

        def restore(name: str) -> str:
            work and work.write_bytes(work.with_suffix(f".{name}").read_bytes())
            return "by hand"

        checkpoints = None if work is None else CallbackCheckpoints(keep=keep, restore=restore)
        if "rules" in options:
            options["rules"] = ClientRules(**options["rules"])
        if bootstrap is None:
            guard = Guard(mode="local", agent_id="cleaner", **options)
        else:
            guard = guard_of(bootstrap, checkpoints=checkpoints, **options)
        with guard:
            yield _PythonSession(guard)


class _TypeScriptSession:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def call(self, name: str, **args: Any) -> str:
        try:
            return str(self._agent("said", name, args))
        except Raised as raised:
            return f"{raised.code}: {raised.reason}"

    def replay(self, key: str) -> int:
        return int(self._agent("replay", key))

    def spend(self, usd: float) -> None:
        self._agent("turn", {"costUsd": usd})

    def begin_run(self) -> None:
        self._agent("beginRun")

    def checkpoint(self, name: str) -> bool:
        return self._agent("checkpoint", name) is not None

    def is_away(self) -> bool:
        return bool(self._agent("about").get("degraded") == "the broker is unavailable")


class TypeScript:
    LACKS = frozenset[str]()

    @contextmanager
    def session(self, bootstrap: str | None, work: Path | None = None, **options: Any) -> Iterator[Driven]:
        named = {_camel(name): value for name, value in options.items()}
        if work is not None:
            named["work"] = str(work)
        with Agent(bootstrap, **named) as agent:
            yield _TypeScriptSession(agent)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


DRIVERS: Final[dict[str, Driver]] = {"Python": Python(), "TypeScript": TypeScript()}


@dataclass(frozen=True)
class Case:
    """`check` runs a driver before a broker; `row` is what the table says of who passes."""

    row: str
    check: Callable[[Driver, MockCluster, Path], None]


CASES: dict[str, Case] = {}


def case(name: str, row: str) -> Callable[[Callable[[Driver, MockCluster, Path], None]], None]:
    def add(check: Callable[[Driver, MockCluster, Path], None]) -> None:
        CASES[name] = Case(row, check)

    return add


def back_to(checkpoint: str | None) -> Say:
    def say(event: ActionEvent) -> Any:
        if event.action != "write":
            return Level.ALLOW
        return decision(Level.ROLLBACK, event).model_copy(update={"checkpoint": checkpoint})

    return say


@case("rules", "rules of the agent's author: lists, arguments, evidence, loops, rates, budgets")
def _(driver: Driver, cluster: MockCluster, _: Path) -> None:
    rules = {
        "denied_actions": ["drop_*"],
        "argument_constraints": {"send": {"properties": {"usd": {"maximum": 5}}}},
        "evidence_requirements": {"send": ["look"]},
        "loop_rules": [{"action": "look", "threshold": 3, "window_seconds": 600}],
        "prices": {"run": 0.4},
        "run_budget": 1.0,
    }
    with StandIn(cluster.bootstrap) as worker, driver.session(cluster.bootstrap, rules=rules) as session:
        for name, args, becomes in (
            ("mcp__x__dropTable", {}, "denied_action"),
            ("send", {"usd": 9}, "argument_constraint_violated"),
            ("send", {"usd": 5}, "missing_evidence"),
            ("look", {"at": "a"}, "executed"),
            ("send", {"usd": 5}, "executed"),
            ("look", {"at": "a"}, "executed"),
            ("look", {"at": "a"}, "loop_detected"),
            ("run", {}, "executed"),
        ):
            said = session.call(name, **args)
            assert said.partition(":")[0] == becomes
            assert becomes != "argument_constraint_violated" or said.endswith(" (usd must be at most 5)")
        session.spend(0.5)
        assert session.call("run").startswith("budget_exceeded: The budget for this is used up.")
        session.begin_run()
        assert session.call("run") == "executed"
        wait_until(lambda: len(worker.outcomes()) == 10, "all ends have arrived")
    assert worker.outcomes().count(Outcome.REFUSED) == 5
    ended = [event for event in worker.of(Kind.COMPLETED) if event.action == "run"]
    assert [event.usage.cost_usd if event.usage else event.error for event in ended] == [0.4, "budget_exceeded", 0.4]
    assert not worker.feedback, "what a rule of the author refuses is no decision of the worker"


@case("checkpoints", "checkpoints: a state is kept and told, a ROLLBACK puts it back and says so")
def _(driver: Driver, cluster: MockCluster, folder: Path) -> None:
    work = folder / "work.txt"
    work.write_text("good")
    with StandIn(cluster.bootstrap, back_to("c1")) as worker:
        with driver.session(cluster.bootstrap, work, mode="blocking") as session:
            assert session.checkpoint("c1")
            work.write_text("bad")
            back = "The work was restored to checkpoint c1. Continue from there with another approach."
            assert session.call("write") == f"rollback: ROLLBACK: for the model {back}"
            assert work.read_text() == "good"
            work.unlink()
            assert not session.checkpoint("c2"), "there is nothing to keep"
            work.with_suffix(".c1").unlink()
            assert session.call("write").endswith("The changes could not be undone: a person has to review them.")
        wait_until(lambda: len(worker.of(Kind.SESSION_ENDED)) == 1, "the events have arrived")
        wait_until(lambda: Stage.FAILED in worker.stages(), "the failure is told")
    told = [event.checkpoint for event in worker.events if event.checkpoint is not None]
    assert [(one.id, one.safe) for one in told] == [("c1", True)]
    details = [one.detail for one in worker.feedback if one.stage in {Stage.APPLIED, Stage.FAILED}]
    assert details[0] == "restored: checkpoint c1: 0 files restored, 0 removed; by hand"
    assert details[1].startswith("not restored: checkpoint c1: ")


@case("no safe checkpoint", "checkpoints: that none is safe is told")
def _(driver: Driver, cluster: MockCluster, folder: Path) -> None:
    with (
        StandIn(cluster.bootstrap, back_to(None)) as worker,
        driver.session(cluster.bootstrap, folder / "work.txt", mode="blocking") as session,
    ):
        assert session.call("write").endswith("Nothing was restored: a person has to review what was done.")
        wait_until(lambda: Stage.FAILED in worker.stages(), "it is told")
    (told,) = [one.detail for one in worker.feedback if one.stage is Stage.FAILED]
    assert told == "nothing was restored: no checkpoint is safe, a person has to recover the work"


@case("spool", "a spool on disk while the broker is unavailable, also for the next process")
def _(driver: Driver, cluster: MockCluster, folder: Path) -> None:
    options: dict[str, Any] = {"spool_dir": str(folder / "spool"), "close_budget_s": 1.0}
    with StandIn(cluster.bootstrap) as worker:
        with driver.session(cluster.bootstrap, **options) as session:
            session.call("get_asset")
            wait_until(lambda: worker.of(Kind.COMPLETED), "the first call has arrived")
            cluster.set_down()
            wait_until(session.is_away, "it is known that the broker is unavailable")
            for number in range(20):
                assert session.call("get_asset", number=number) == "executed"
            assert session.call("delete_asset").startswith("no_verdict: ")
        (file,) = (folder / "spool").iterdir()
        assert (file.stat().st_mode & 0o777, (folder / "spool").stat().st_mode & 0o777) == (0o600, 0o700)
        kept = [json.loads(value) for value in _values(file.read_bytes()) if b'"event_id"' in value]
        cluster.set_up()
        with driver.session(cluster.bootstrap, session_id="next", **options) as session:
            session.call("get_asset")
            wait_until(lambda: worker.of(Kind.SESSION_ENDED), "what was left has arrived")
            wait_until(lambda: not any((folder / "spool").iterdir()), "nothing waits any more")
    ids = [event.event_id for event in worker.events if event.session_id == "s1"]
    assert ids[-len(kept) :] == [event["event_id"] for event in kept], "in order, with the same ids"
    assert [event.seq for event in worker.events if event.session_id == "s1"] == list(range(len(ids)))


def _values(data: bytes) -> Iterator[bytes]:
    """The records of a spool's file."""
    while data:
        topic, key, value = (int.from_bytes(data[a:b]) for a, b in ((0, 2), (2, 4), (4, 8)))
        yield data[12 + topic + key : 12 + topic + key + value]
        data = data[12 + topic + key + value :]


@case("local", "mode `local`: decides beside the agent, without Kafka")
def _(driver: Driver, _: MockCluster, __: Path) -> None:
    with driver.session(None, session_id="of-its-own", rules={"denied_actions": ["drop_*"]}) as session:
        assert session.call("drop_view").startswith("denied_action: ")
        said = [session.call("delete_asset", asset_id="fact_sales").partition(":")[0] for _ in range(4)]
    assert said == [*["executed"] * 2, *["session_killed_loop_guard"] * 2]


@case("replays", "a call with a key is made once, and its result returned again")
def _(driver: Driver, cluster: MockCluster, _: Path) -> None:
    with StandIn(cluster.bootstrap) as worker:
        with driver.session(cluster.bootstrap) as session:
            assert session.replay("k1") == 1
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the events have arrived")
    ends = [(event.outcome, event.error) for event in worker.of(Kind.COMPLETED)]
    assert ends == [(Outcome.OK, None), (Outcome.REFUSED, "idempotent_replay")]


def table() -> str:
    """Rows down, languages across."""
    lines = ["| | " + " | ".join(DRIVERS) + " |", "| --- |" + " --- |" * len(DRIVERS)]
    for name, one in CASES.items():
        marks = ["no" if name in driver.LACKS else "yes" for driver in DRIVERS.values()]
        lines.append(f"| {one.row} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"
