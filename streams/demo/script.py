"""The demonstration: an agent that is stopped, one that is left alone, and what must be true of both."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, control_key
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.audit.query import QueryFailed, session_story
from haltline.streams.demo.agent_kit import EXIT_STOPPED, REPORT, URL_VARIABLE
from haltline.streams.demo.catalogue import COPY, GONE, STAGING, STUCK, Catalogue
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.embedded_broker import FETCH_WAIT_MS, EmbeddedBroker
from haltline.streams.local.subprocesses import Child, ChildDied, Children, TimedOut, interruptible
from haltline.streams.local.system import start_audit, start_worker, wait_until_ready

_OPERATOR: Final = "ada"
_BRITTLE: Final = "sales-clean-up-1"
_BULK: Final = "staging-clean-up-1"
_KILLED: Final = "session_killed_loop_guard"
_WITHIN_S: Final = 90.0
"""The time limit of each step: far more than it needs, for a busy machine."""
_VERDICT_BUDGET_S: Final = 10.0
_SHOWN_CHARS: Final = 48
_STYLES: Final = {"agent": "cyan", "catalogue": "blue", "haltline": "magenta", "operator": "green", "system": "dim"}


def run(console: Console, folder: Path, *, pause_s: float = 6.0) -> bool:
    """Run the demonstration. Returns True if every fact is true. Logs and the audit table stay in `folder`.

    Ends everything that it started, also on an interrupt (KeyboardInterrupt is passed on).
    """
    began_s = time.monotonic()
    console.print(Text("haltline: a runaway agent is stopped, end to end, on this machine", style="bold"))
    try:
        with interruptible(), ExitStack() as stack:
            broker = stack.enter_context(EmbeddedBroker())
            broker.ensure_topics(Topics())
            catalogue = stack.enter_context(Catalogue())
            children = stack.enter_context(Children(folder / "logs"))
            demo = _Demo(console, children, catalogue, broker.bootstrap, folder / "audit")
            stack.callback(demo.reader.close)
            demo.start()
            _brittle_task(demo, pause_s)
            _declared_clean_up(demo)
    except (TimedOut, ChildDied) as failure:
        _show_logs(console, folder / "logs")
        console.print(Text(f"\nFAILED: {failure}", style="bold red"))
        return False
    shown = Table("", "claim", "seen")
    for claim, holds, seen in demo.facts:
        shown.add_row(Text("ok", "green") if holds else Text("FAILED", "bold red"), Text(claim), Text(seen))
    console.print()
    console.print(shown)
    held = sum(holds for _, holds, _ in demo.facts)
    console.print(f"{held} of {len(demo.facts)} facts hold, {time.monotonic() - began_s:.0f} s")
    if held < len(demo.facts):
        _show_logs(console, folder / "logs")
    return held == len(demo.facts)


def _brittle_task(demo: "_Demo", pause_s: float) -> None:
    demo.title(
        "1. A brittle task",
        f"An agent shall remove the stale asset {STUCK} and retry until it is gone. "
        f"The catalogue answers 'asset still exists' each time. Nothing in the agent would ever stop this.",
    )
    first = demo.agent("brittle-1", "brittle_agent", _BRITTLE, "--pause-s", f"{pause_s:g}")
    warned = any(line.startswith("hears (loop_suspected)") for line in first.reports)
    demo.fact("at the second delete the agent is warned (loop_suspected)", warned, "heard" if warned else "not heard")
    kill = next((d for d in demo.decisions if d.session_id == _BRITTLE and d.code == _KILLED), None)
    demo.fact(
        "the third delete is refused",
        len(first.answered) == 2
        and first.exit_code == EXIT_STOPPED
        and kill is not None
        and kill.detector in {"destructive_repeat", "destructive_volume"},
        f"{len(first.answered)} calls made, then {kill.reason if kill is not None else 'no kill'}",
    )
    demo.fact(
        f"every further call is refused with {_KILLED}",
        len(first.refused) == 4 and all(line.endswith(f" REFUSED ({_KILLED})") for line in first.refused),
        f"{len(first.refused)} refused",
    )
    control = control_key(ScopeKind.SESSION, _BRITTLE)
    demo.wait(lambda: demo.time_to_stop_ms(control) is not None, "the agent's side to acknowledge the kill")
    demo.fact("the kill was acknowledged, not only sent", holds=True, seen=f"{demo.time_to_stop_ms(control)} ms")

    demo.say("system", "the agent's process is started again, as a supervisor would")
    second = demo.agent("brittle-2", "brittle_agent", _BRITTLE, "--pause-s", f"{pause_s:g}")
    demo.fact(
        "the restarted process is refused at once",
        not second.answered and len(second.refused) == 4 and second.exit_code == EXIT_STOPPED,
        f"{len(second.answered)} calls made, {len(second.refused)} refused",
    )
    requests = [(request.method, request.asset_id) for request in demo.catalogue.requests]
    demo.fact(
        f"the catalogue saw two deletes of {STUCK}, and nothing after the refusal",
        requests == [("DELETE", STUCK)] * 2,
        f"{len(requests)} requests",
    )
    demo.audited(_BRITTLE, f"session_killed: loop_detected, 3 deletes on asset_id={STUCK} in ")

    # Only a person can release it, with a reason.
    reset = ("reset", _BRITTLE, "--by", _OPERATOR, "--reason")
    code = demo.command("reset-1", *reset, "")
    demo.fact("a reset without a reason is refused", code == 2 and control in demo.control, f"exit code {code}")
    released = demo.command("reset-2", *reset, "task corrected: report it instead of deleting it again")
    cured = demo.agent("brittle-3", "brittle_agent", _BRITTLE, "--cured")
    demo.fact(
        "after an operator's reset the session works again, with a corrected task",
        released == cured.exit_code == 0 and not cured.refused and COPY in demo.deleted(),
        f"{len(cured.answered)} calls made, {len(cured.refused)} refused",
    )
    demo.audited(_BRITTLE, f"session_reset by {_OPERATOR}: task corrected")


def _declared_clean_up(demo: "_Demo") -> None:
    demo.title(
        "2. A declared clean-up",
        f"Another agent removes {len(STAGING)} staging assets, as fast as it can. That is far more than the "
        "limit of 3 deletes in 60 s, so an operator declares it first.",
    )
    declared = demo.command(
        "batch",
        *("batch", _BULK, "--max-deletes", "100", "--actions", "delete_*", "--targets", "asset_id=stg_*"),
        *("--for", "1h", "--by", _OPERATOR, "--reason", "quarterly clean-up of staging"),
    )
    agent = demo.agent("cleanup", "cleanup_agent", _BULK)
    deleted = demo.deleted() & set(STAGING)
    hardest = max((d.level for d in demo.decisions if d.session_id == _BULK), default=Level.ALLOW)
    demo.fact(
        f"a declared clean-up of {len(STAGING)} assets is not stopped",
        declared == agent.exit_code == 0 and len(deleted) == len(STAGING),
        f"{len(deleted)} deleted, {len(agent.refused)} refused, hardest decision {hardest}",
    )
    demo.audited(_BULK, f"session_batch by {_OPERATOR}: quarterly")


class _Agent(NamedTuple):
    """A run of a sample agent that has ended: its exit code, and the lines that it reported."""

    exit_code: int | None
    reports: list[str]

    @property
    def refused(self) -> list[str]:
        return [line for line in self.reports if " REFUSED (" in line]

    @property
    def answered(self) -> list[str]:
        return [line for line in self.reports if ") -> " in line]


class _Demo:
    """The running parts, what was seen of them, and the facts so far."""

    def __init__(
        self, console: Console, children: Children, catalogue: Catalogue, bootstrap: str, audit_table: Path
    ) -> None:
        self.catalogue = catalogue
        self.reader = LogReader(bootstrap, [Topics().interventions, Topics().control])
        self.decisions: list[Decision] = []
        self.control: dict[str, ControlRecord] = {}
        """The controls in force, by key."""
        self.facts: list[tuple[str, bool, str]] = []
        """Each with its claim, whether it is true, and the evidence."""
        self._console = console
        self._children = children
        self._bootstrap = bootstrap
        self._audit_table = audit_table
        self._reports_shown = self._requests_shown = 0
        self._began_s = time.monotonic()

    def start(self) -> None:
        """Start the worker and the audit sink."""
        fetch_wait = ("--fetch-wait-ms", str(FETCH_WAIT_MS))
        options = ["--table", str(self._audit_table), "--flush", "1", *fetch_wait, "--metrics-port", "0"]
        audit = start_audit(self._children, self._bootstrap, options)
        worker = start_worker(self._children, self._bootstrap, embedded=True)
        self.say("system", f"broker (embedded) at {self._bootstrap}, catalogue at {self.catalogue.url}")
        self.say("system", f"worker is process {worker.pid}, audit sink {audit.pid}; they take some seconds to join")
        wait_until_ready(self._children, worker)
        self.say("system", "worker is ready; the audit sink writes its table every second")

    def say(self, who: str, text: str) -> None:
        """Print one line: time, author, text."""
        line = Table.grid(padding=(0, 1))  # so that a long text is wrapped in its column
        line.add_column(width=8, justify="right", style="dim")
        line.add_column(width=9, style=_STYLES[who])
        line.add_column()
        line.add_row(f"{time.monotonic() - self._began_s:.1f} s", who, Text(text))
        self._console.print(line)

    def title(self, text: str, what: str) -> None:
        """Print the title of a part."""
        self._console.print("", Text(text, style="bold"), Text(what), "", sep="\n")

    def agent(self, name: str, module: str, session_id: str, *options: str) -> _Agent:
        """Run a sample agent in its own process, to its end."""
        self.say("system", f"python -m haltline.streams.demo.{' '.join((module, *options))}   # session {session_id}")
        environment = {
            "HALTLINE_BOOTSTRAP": self._bootstrap,
            "HALTLINE_SESSION_ID": session_id,
            "HALTLINE_AGENT_ID": module.replace("_", "-"),
            "HALTLINE_BUDGET_S": str(_VERDICT_BUDGET_S),
            URL_VARIABLE: self.catalogue.url,
        }
        module = f"haltline.streams.demo.{module}"
        child = self._children.start_module(name, module, options, env=environment, must_run=False)
        self._reports_shown = 0
        self.wait(lambda: child.exit_code is not None, f"the end of {name}", child)
        self._show(child)
        return _Agent(child.exit_code, _reports(child))

    def command(self, name: str, *arguments: str) -> int:
        """Run an operator's command as a person would. Returns its exit code."""
        shown = " ".join(f"'{argument}'" if not argument or " " in argument else argument for argument in arguments)
        self.say("operator", f"$ haltline {shown}")
        options = [*arguments, "--bootstrap", self._bootstrap]
        child = self._children.start_module(name, "haltline.cli", options, must_run=False)
        self.wait(lambda: child.exit_code is not None, f"the end of haltline {arguments[0]}")
        for line in child.log_file.read_text(encoding="utf-8", errors="replace").splitlines():
            self.say("operator", f"  {line}")
        return child.exit_code or 0

    def fact(self, claim: str, holds: bool, seen: str) -> None:  # a claim, its truth, the evidence
        """Note whether a claim is true."""
        self.facts.append((claim, holds, seen))

    def audited(self, session_id: str, beginning: str) -> None:
        """Note as a fact that the audit has a row of the session whose summary has this beginning, once it has."""
        found: list[str] = []

        def is_there() -> bool:
            with suppress(QueryFailed):  # the table does not exist before the first flush
                summaries = (row["summary"] or "" for row in session_story(self._audit_table, session_id))
                found[:] = [summary for summary in summaries if summary.startswith(beginning)]
            return bool(found)

        self.wait(is_there, f"'{beginning}' in the audit table")
        self.fact(f"the audit has '{beginning.strip()} ...'", holds=True, seen=found[0])

    def deleted(self) -> set[str]:
        """Return the assets that the catalogue has deleted."""
        return {r.asset_id for r in self.catalogue.requests if r.method == "DELETE" and r.answer == GONE}

    def time_to_stop_ms(self, key: str) -> int | None:
        """Return how long the agent's side took to acknowledge a kill; None while it has not."""
        return self.control[key].time_to_stop_ms if key in self.control else None

    def wait(self, condition: Callable[[], object], what: str, agent: Child | None = None) -> None:
        """Wait for a condition, and print what happens meanwhile. Raises TimedOut or ChildDied."""

        def look() -> object:
            self._show(agent)
            return condition()

        self._children.wait_until(look, what, within_s=_WITHIN_S)

    def _show(self, agent: Child | None) -> None:
        """Print the calls, decisions and requests since the last call."""
        # Read from the last link of the chain to the first, printed from the first to the last: causes come first.
        reports = [] if agent is None else _reports(agent)[self._reports_shown :]
        requests = self.catalogue.requests[self._requests_shown :]
        while (message := self.reader.poll(0.02)) is not None:
            if message.topic() == Topics().interventions:
                self._take_decision(wire.decode(Decision, message.value()))
            else:
                self._take_control((message.key() or b"").decode(), message.value())
        for request in requests:
            if request.asset_id not in STAGING:  # the agent's own report of these is enough
                self.say("catalogue", f"{request.method} /assets/{request.asset_id} -> {request.answer[:_SHOWN_CHARS]}")
        for line in reports:
            self.say("agent", line)
        self._reports_shown += len(reports)
        self._requests_shown += len(requests)

    def _take_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)
        if decision.level > Level.ALLOW and decision.detector != "killed":  # each call of a killed session has one
            self.say("haltline", f"{decision.level}: {decision.reason}")

    def _take_control(self, key: str, value: bytes | None) -> None:
        if value is None:
            if self.control.pop(key, None) is not None:
                self.say("haltline", f"{key} is released")
            return
        record = wire.decode(ControlRecord, value)
        if record.time_to_stop_ms is not None:
            self.say("haltline", f"{key}: the agent has stopped, {record.time_to_stop_ms} ms after the decision")
        elif key not in self.control:
            self.say("haltline", f"{key} is {record.state} ({record.code})")
        self.control[key] = record


def _reports(agent: Child) -> list[str]:
    """Return the whole lines that an agent has reported so far."""
    output = agent.log_file.read_text(encoding="utf-8", errors="replace")
    lines = output[: output.rfind("\n") + 1].splitlines()
    return [line.removeprefix(REPORT) for line in lines if line.startswith(REPORT)]


def _show_logs(console: Console, logs: Path) -> None:
    """Print the last lines of the processes' logs."""
    for file in sorted(logs.glob("*.log")):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        console.print(Text(f"\nThe end of {file}:", style="bold"))
        console.print(Text("\n".join(lines) or "(nothing was printed)"))
