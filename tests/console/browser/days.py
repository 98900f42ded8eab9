"""Shared parts of test_days: a folder with a running system, agents, and a webhook."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.cli.printing import DEADLINE_S, printing
from tests.http_server import served
from tests.waiting import wait_until

NOTIFY = """
console: {console}
link_key_file: link-key
channels:
  on-call: {{kind: webhook, url_file: hook-url, secret_file: hook-secret}}
"""

CLEANER = """
from haltline import Guard, GuardSettings, Refused

with Guard(GuardSettings.from_env()) as guard:

    @guard.tool(targets=["asset_id"])
    def delete_asset(asset_id: str, why: str) -> str:
        return "deleted"

    try:
        while True:
            delete_asset("fact_sales", why="it is there again")
    except Refused as refused:
        print("refused:", refused)
"""
"""An agent that deletes the same thing whenever it finds it, until it is refused."""

BUILDER = """
import sys
import time

from haltline import Guard, GuardSettings, Refused

HAS_YAML, ROUNDS = sys.argv[1] == "with-yaml", int(sys.argv[2])
with Guard(GuardSettings.from_env()) as guard:

    @guard.tool
    def run_tests(module: str) -> str:
        if not HAS_YAML:
            raise RuntimeError("ModuleNotFoundError: No module named 'yaml'")
        return "12 passed"

    @guard.tool
    def read_file(path: str) -> str:
        return f"the text of {path}"

    for number in range(ROUNDS):
        if guard.killed:
            break
        for tool, argument in ((read_file, f"/srv/app/{number}.py"), (run_tests, "app")):
            try:
                print(tool(argument), flush=True)
            except Refused as refused:
                print("refused:", refused, flush=True)
                while guard.stopped is not None and not guard.killed:  # held
                    time.sleep(0.2)
            except RuntimeError as error:
                print(error, flush=True)
        time.sleep(0.5)
    print("killed" if guard.killed else "done", flush=True)
"""
"""An agent whose tests cannot run where a package is missing, and which waits while it is held, until it is killed."""

MIGRATOR = """
import sys
import time
from pathlib import Path

from haltline import Guard, GuardSettings, Refused

LOCK = Path(sys.argv[1])
with Guard(GuardSettings.from_env()) as guard:

    @guard.tool
    def migrate(table: str, rows: int) -> str:
        if LOCK.exists():
            raise RuntimeError(f"lock timeout on table {table}")
        return f"{rows} rows of {table} are migrated"

    while True:
        try:
            print(migrate("orders", rows=4200), flush=True)
            break
        except Refused as refused:
            print("refused:", refused, flush=True)
            while guard.stopped is not None:
                time.sleep(0.2)
        except RuntimeError as error:
            print(error, flush=True)
    input()
"""
"""An agent that tries again while a table is locked, and is held; it stays until somebody has read what it did."""


class Folder:
    """A folder, and commands that run in it without any option about where things are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("HALTLINE_")}
        self.environ |= {"XDG_CONFIG_HOME": str(path / "none"), "COLUMNS": "200"}

    def run(self, *words: str, code: int = 0) -> str:
        """The output of a command, which must end with this exit code."""
        command = [sys.executable, "-m", "haltline.cli", *words]
        done = subprocess.run(
            command, cwd=self.path, env=self.environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> list[dict[str, object]]:
        """The rows that a command prints as JSON."""
        found = json.loads(self.run(*words, "--json"))
        assert isinstance(found, list)
        return found


@dataclass
class Agent:
    """The process of an agent's program, and what it prints."""

    process: "subprocess.Popen[str]"
    output: Path

    @property
    def printed(self) -> str:
        return self.output.read_text()

    def prints(self, text: str) -> None:
        """Waits until it has."""
        wait_until(
            lambda: text in self.printed or self.process.poll() is not None, f"the agent prints {text!r}", deadline_s=60
        )
        assert text in self.printed, self.printed

    def ends(self, typed: str | None = None) -> None:
        """After what is typed, without an error."""
        self.process.communicate(typed, timeout=60)
        assert self.process.returncode == 0, self.printed


@dataclass
class Webhook:
    """Receives what the notifier sends, in order."""

    url: str = ""
    received: list[dict[str, Any]] = field(default_factory=list)

    def link(self, name: str, session_id: str) -> str:
        """The link of this name in the first message about a session that has one."""
        found: list[str] = []

        def look() -> bool:
            about = [one for one in self.received if one["incident"].get("session_id") == session_id]
            found[:] = [one["links"][name] for one in about if one.get("links", {}).get(name)]
            return bool(found)

        wait_until(look, f"a notification of {session_id} with a link to its {name}", deadline_s=60)
        return found[0]


@contextmanager
def receiving() -> Iterator[Webhook]:
    """A webhook on this machine, until the end of the block."""
    webhook = Webhook()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            webhook.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["data"])
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()

    with served(Receiver) as address:
        webhook.url = f"{address}/"
        yield webhook


@dataclass
class System:
    """The system that the people use, one after the other; `end` is the end of the last day."""

    folder: Folder
    keys: dict[str, str]
    printed: str
    bootstrap: str
    console: str
    webhook: Webhook
    stack: ExitStack

    @property
    def link(self) -> str:
        """The sign-in link that `haltline up` printed."""
        return _found(r"Sign in\s+(\S+)", self.printed)

    @property
    def table(self) -> Path:
        return Path(_found(r"Audit\s+(\S+)", self.printed))

    def end(self) -> None:
        """Agents that still run are killed, the rest is shut down."""
        self.stack.close()

    def agent(self, program: str, agent_id: str, session_id: str, *words: str, **more: str) -> Agent:
        """Starts a program as its author would: a file, and variables of the environment."""
        file = self.folder.path / f"{agent_id}.py"
        file.write_text(program)
        output = self.folder.path / f"{session_id}-{len(list(self.folder.path.glob(f'{session_id}-*')))}.txt"
        own = {"HALTLINE_BOOTSTRAP": self.bootstrap, "HALTLINE_AGENT_ID": agent_id, "HALTLINE_SESSION_ID": session_id}
        with output.open("w") as printed:
            command, env = [sys.executable, str(file), *words], self.folder.environ | own | more
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=printed, stderr=printed, text=True
            )
        self.stack.callback(process.kill)
        return Agent(process, output)


@contextmanager
def running(path: Path, *options: str) -> Iterator[System]:
    """`haltline init`, `haltline up` and `haltline notify` in a new folder, until `end` or the block's."""
    folder = Folder(path)
    keys = dict(re.findall(r"^  (\w+) \(\w+\): (hl_\S+)$", folder.run("init", "--yes", "--operator", "ada"), re.M))
    (path / "link-key").write_text(secrets.token_hex(32))
    file = path / "haltline.toml"
    file.write_text(file.read_text().replace('# link_key = "FILE"', 'link_key = "link-key"'))
    with ExitStack() as stack:
        webhook = stack.enter_context(receiving())
        printed = stack.enter_context(
            _process(folder, "up", *options, "--metrics-port", "0", "--console-port", "0", until="Ctrl-C ends all")
        )
        console = _found(r"Console\s+(http://\S+)", printed)
        (path / "hook-url").write_text(webhook.url)
        (path / "hook-secret").write_text(f"whsec_{secrets.token_hex(16)}")
        (path / "notify.yaml").write_text(NOTIFY.format(console=console))
        stack.enter_context(
            _process(folder, "notify", "--config", "notify.yaml", "--metrics-port", "0", until="/healthz")
        )
        bootstrap = _found(r"HALTLINE_BOOTSTRAP=(\S+)\)", printed)
        yield System(folder, keys, printed, bootstrap, console, webhook, stack.pop_all())


@contextmanager
def _process(folder: Folder, *words: str, until: str) -> Iterator[str]:
    """The output of a command up to this text; it is then ended by SIGTERM, with exit code 0."""
    with printing(folder.path / f"{words[0]}.txt", *words, cwd=folder.path, env=folder.environ) as running:
        yield running.wait_for(until)
    assert running.exit_code() == 0, running.printed


@contextmanager
def archived(path: Path, system: System, broker: EmbeddedBroker) -> Iterator[tuple[Folder, str]]:
    """A folder with the audit table, its public key and the list of who may sign in; and a console on no more."""
    broker.ensure_topics(Topics())
    folder = Folder(path)
    shutil.copytree(system.table, path / "audit")
    for name in ("audit.pem.pub", "console.yaml"):
        shutil.copy(system.folder.path / "haltline-keys" / name, path)
    words = ["--rebuild", "--audit-table", "audit", "--audit-public-key", "audit.pem.pub", "--keys", "console.yaml"]
    words += ["--bootstrap", broker.bootstrap, "--port", "0"]
    with _process(folder, "console", *words, until="http://") as printed:
        yield folder, _found(r"(http://127\.0\.0\.1:\d+)", printed)


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]
