"""The stage of the demonstration: broker, worker, sink, catalogue, and the output on the terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from haltline.schemas import wire
from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.topics import Topics
from haltline.streams.demo.agent_kit import REPORT, URL_VARIABLE
from haltline.streams.demo.catalogue import STAGING, Catalogue
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.embedded_broker import FETCH_WAIT_MS, EmbeddedBroker
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_audit, start_worker, wait_until_ready

OPERATOR: Final = "ada"
AGENT_WITHIN_S: Final = 90.0
"""The time limit of an agent or a command: far more than it needs, for a busy machine."""

_VERDICT_BUDGET_S = 10.0
_SHOWN_CHARS = 48
_STYLES = {"agent": "cyan", "catalogue": "blue", "haltline": "magenta", "operator": "green", "system": "dim"}


class Agent:
    """One run of a sample agent in its own process."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._seen = 0

    @property
    def reports(self) -> list[str]:
        """Return its reported lines so far."""
        output = self.child.log_file.read_text(encoding="utf-8", errors="replace")
        lines = output[: output.rfind("\n") + 1].splitlines()
        return [line.removeprefix(REPORT) for line in lines if line.startswith(REPORT)]

    def unseen(self) -> list[str]:
        """Return the reported lines since the last call."""
        news = self.reports[self._seen :]
        self._seen += len(news)
        return news

    @property
    def refused(self) -> list[str]:
        """Return the refused calls."""
        return [line for line in self.reports if " REFUSED (" in line]

    @property
    def answered(self) -> list[str]:
        """Return the executed calls."""
        return [line for line in self.reports if ") -> " in line]


class Stage:
    """The running system, and all observations of it; `pump` prints them."""

    def __init__(
        self, console: Console, children: Children, catalogue: Catalogue, bootstrap: str, audit_table: Path
    ) -> None:
        self.catalogue = catalogue
        self.bootstrap = bootstrap
        self.audit_table = audit_table
        self.decisions: list[Decision] = []
        self.control: dict[str, ControlRecord] = {}
        """The controls in force, by key."""
        self._console = console
        self._children = children
        self._topics = Topics()
        self._reader = LogReader(bootstrap, [self._topics.interventions, self._topics.control])
        self._agent: Agent | None = None
        self._requests_shown = 0
        self._began_s = time.monotonic()

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

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
        self._console.print()
        self._console.print(Text(text, style="bold"))
        self._console.print(Text(what))
        self._console.print()

    def run_agent(self, name: str, module: str, session_id: str, *options: str) -> Agent:
        """Start a sample agent in its own process and wait for its end."""
        command = " ".join(("python", "-m", f"haltline.streams.demo.{module}", *options))
        self.say("system", f"{command}   # session {session_id}")
        environment = {
            "HALTLINE_BOOTSTRAP": self.bootstrap,
            "HALTLINE_SESSION_ID": session_id,
            "HALTLINE_AGENT_ID": module.replace("_", "-"),
            "HALTLINE_BUDGET_S": str(_VERDICT_BUDGET_S),
            URL_VARIABLE: self.catalogue.url,
        }
        module = f"haltline.streams.demo.{module}"
        agent = self._agent = Agent(self._children.start_module(name, module, options, env=environment, must_run=False))
        self._wait_for(agent.child, name)
        self.pump()
        return agent

    def command(self, name: str, *arguments: str) -> int:
        """Run an operator's command as a person would. Returns its exit code."""
        shown = " ".join(f"'{argument}'" if not argument or " " in argument else argument for argument in arguments)
        self.say("operator", f"$ haltline {shown}")
        options = [*arguments, "--bootstrap", self.bootstrap]
        child = self._children.start_module(name, "haltline.cli", options, must_run=False)
        self._wait_for(child, f"haltline {arguments[0]}")
        for line in child.log_file.read_text(encoding="utf-8", errors="replace").splitlines():
            self.say("operator", f"  {line}")
        return child.exit_code or 0

    def _wait_for(self, child: Child, name: str) -> None:
        self.wait(lambda: child.exit_code is not None, f"the end of {name}", within_s=AGENT_WITHIN_S)

    def wait(self, condition: Callable[[], object], what: str, *, within_s: float) -> None:
        """Wait for a condition, and print what happens meanwhile. Raises TimedOut or ChildDied."""

        def look() -> object:
            self.pump()
            return condition()

        self._children.wait_until(look, what, within_s=within_s)

    def pump(self) -> None:
        """Read and print the calls, decisions and requests since the last call."""
        # Read from the last link of the chain to the first, printed from the first to the last: causes come first.
        reports = self._agent.unseen() if self._agent is not None else []
        requests = self.catalogue.requests[self._requests_shown :]
        while (message := self._reader.poll(0.02)) is not None:
            if message.topic() == self._topics.interventions:
                self._take_decision(wire.decode(Decision, message.value()))
            else:
                self._take_control((message.key() or b"").decode(), message.value())
        self._requests_shown += len(requests)
        for request in requests:
            if request.asset_id not in STAGING:  # the agent's own report of these is enough
                self.say("catalogue", f"{request.method} /assets/{request.asset_id} -> {request.answer[:_SHOWN_CHARS]}")
        for line in reports:
            self.say("agent", line)

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


@contextmanager
def open_stage(console: Console, folder: Path) -> Iterator[Stage]:
    """Run everything until the end of the block. Raises TimedOut or ChildDied."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        broker.ensure_topics(Topics())
        catalogue = stack.enter_context(Catalogue())
        children = stack.enter_context(Children(folder / "logs"))
        table = folder / "audit"
        options = ["--table", str(table), "--flush", "1", "--fetch-wait-ms", str(FETCH_WAIT_MS), "--metrics-port", "0"]
        audit = start_audit(children, broker.bootstrap, options)
        worker = start_worker(children, broker.bootstrap, embedded=True)
        stage = Stage(console, children, catalogue, broker.bootstrap, table)
        stack.callback(stage.close)
        stage.say("system", f"broker (embedded) at {broker.bootstrap}, catalogue at {catalogue.url}")
        stage.say("system", f"worker is process {worker.pid}, audit sink {audit.pid}; they take some seconds to join")
        wait_until_ready(children, worker)
        stage.say("system", "worker is ready; the audit sink writes its table every second")
        yield stage
