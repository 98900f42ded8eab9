"""Who releases a session, uninstalls its hook, or changes its options: a person. Agents are programs of their names."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from haltline.cli.agent import hook_settings
from haltline.interventions.agent.integrations.claude_code.stops import Stop
from haltline.interventions.agent.integrations.hooks import ancestors
from haltline.interventions.agent.integrations.hooks.handler import ATTENDED, HookHandler
from haltline.interventions.agent.integrations.hooks.installed import Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.schemas.events import Kind
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.at_terminal import at_terminal
from tests.builders import cases
from tests.interventions.agent.integrations.test_hook_processes import HALTLINE, NOWHERE, ClaudeCode
from tests.interventions.agent.integrations.test_hooks import Hooks
from tests.interventions.agent.stand_in import StandIn
from tests.programs import ended, printed
from tests.waiting import wait_until

PYTHON = shlex.quote(sys.executable)
RELEASE = f"{PYTHON} -m haltline.cli hook release s1"


class Machine(ClaudeCode):
    """A user's home with a project, in which the hook is installed and a session is stopped."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, NOWHERE)
        self.options = ["--local"]
        self.project = folder / "project"
        self.settings = self.project / ".claude/settings.local.json"
        self.project.mkdir()
        self.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        printed(*HALTLINE, "hook", "install", "--local", cwd=self.project, env=self.environment)
        Stored.of_user(self.environment).stop("s1", Stop("Stopped", is_local=True))

    def agent(self, name: str = "claude") -> Path:
        """A coding agent, which runs the command lines that it is given."""
        program = self.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f"#!{sys.executable}\nimport os, sys\nfor line in sys.argv[1:]:\n    code = os.system(line)\n"
            "sys.exit(os.waitstatus_to_exitcode(code))\n"
        )
        program.chmod(0o755)
        return program

    def runs(self, *command: object) -> "subprocess.CompletedProcess[str]":
        return ended(*command, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL)

    def told(self, **fields: object) -> str:
        """What the user is told with the next hook of a session in the project."""
        done = self("PreToolUse", tool_name="Read", session_id="s2", cwd=str(self.project), **fields)
        return str(json.loads(done.stdout or "{}").get("systemMessage", ""))

    @property
    def is_stopped(self) -> bool:
        return Stored.of_user(self.environment).stopped("s1") is not None


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="hl", dir="/tmp") as name:
        machine = Machine(Path(name))
        yield machine
        machine.end(signal.SIGTERM)


@cases(
    "line",
    {
        "plain": RELEASE,
        "with a terminal": f"script -qec {shlex.quote(RELEASE)} /dev/null",
        "in a program": f"{PYTHON} -c 'import os; os.system(\"{RELEASE}\")'",
        "put together": f"x=rel; {PYTHON} -m halt''line.cli hook ${{x}}ease s1",
        "after much else": f": {'x' * 66_000}; {RELEASE}",
        "an uninstall": f"{PYTHON} -m haltline.cli hook uninstall",
        "another broker": f"{PYTHON} -m haltline.cli hook install --bootstrap 127.0.0.1:1",
        "settings that it has changed": f"rm .claude/*.json; {PYTHON} -m haltline.cli hook install --local",
        "out of its tree": f"setsid -w {RELEASE}",
    },
)
def test_whatever_an_agent_runs_below_it_releases_nothing(machine: Machine, line: str) -> None:
    done = machine.runs(machine.agent(), line)
    assert "expected a person, got a process below claude" in done.stdout + done.stderr
    options = machine.settings.read_text().count("hook_client.py --local") if machine.settings.exists() else 0
    assert (machine.is_stopped, options) == (True, 0 if "rm" in line else len(hook_settings.EVENTS))


def test_an_agent_of_any_name_is_known_by_its_hooks(machine: Machine) -> None:
    start = json.dumps({"session_id": "s2", "hook_event_name": "SessionStart"})
    hook = json.loads(machine.settings.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    done = machine.runs(machine.agent("my-agent"), f"echo {shlex.quote(start)} | ({hook})", RELEASE)
    assert ("got a process below my-agent" in done.stderr, machine.is_stopped) == (True, True)


@cases(
    "agents, prompts",
    {
        "by an agent": ("claude codex", []),
        "by a person, of an agent that starts itself again": ("claude claude", [2]),
    },
)
def test_a_prompt_ends_no_hold_if_an_agent_wrote_it(machine: Machine, agents: str, prompts: list[int]) -> None:
    """The first agent starts the second, which runs the hook."""
    hooks = Hooks()
    hooks("UserPromptSubmit", prompt="Delete it")
    hooks.hold()
    serving = HookHandler(lambda *_: hooks.sessions, Stored(machine.folder / "s"), Installed({}))
    first, second = map(machine.agent, agents.split())
    prompt = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "Look at b instead"}
    with subprocess.Popen([first, f"exec {second} 'echo $$; exec cat'"], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        peer = int(process.stdout.readline())
        asyncio.run(serving.reply(f"claude-code {ATTENDED}", json.dumps(prompt).encode(), peer))
        process.communicate()
    assert [e.task.prompts for e in hooks.guards["s1"].events if e.task] == prompts


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps")
def test_where_there_is_no_proc_the_tree_is_read_with_ps() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        wait_until(lambda: (of := ancestors._of_proc(process.pid)) and "60" in of.words, "its command line is set")
        read, listed = ancestors._of_proc(process.pid), ancestors._of_ps()(process.pid)
        process.terminate()
    assert read is not None
    assert listed is not None
    assert (listed.parent, listed.name, listed.words) == (os.getpid(), "sleep", ("sleep", "60"))
    assert (read.parent, read.name, read.words[:2]) == (os.getpid(), "sleep", ("sleep", "60"))


def test_what_has_left_the_tree_has_no_terminal_on_which_the_code_is_shown(machine: Machine) -> None:
    out = machine.folder / "out"
    machine.runs(machine.agent(), f"(setsid sh -c 'sleep 0.2; {RELEASE}; echo $?' > {out} 2>&1 &)")
    wait_until(lambda: out.read_text().endswith("2\n"), "it has ended")
    assert ("to show a code on, got none" in out.read_text(), machine.is_stopped) == (True, True)


def test_a_person_types_the_code(machine: Machine) -> None:
    def asks(*arguments: str) -> int:
        return at_terminal(*HALTLINE, "hook", *arguments, env=machine.environment, cwd=machine.project).returncode

    assert (asks("release", "s1"), machine.is_stopped) == (0, False)
    assert asks("install", "--bootstrap", "127.0.0.1:1") == 0
    assert "127.0.0.1:1" in machine.settings.read_text()
    assert (asks("uninstall"), machine.settings.exists()) == (0, False)


def test_a_hook_is_installed_again_with_equal_options_by_anything(machine: Machine) -> None:
    before = machine.settings.read_text()
    assert machine.runs(machine.agent(), f"{PYTHON} -m haltline.cli hook install --local").returncode == 0
    assert machine.settings.read_text() == before


LOCAL = ".claude/settings.local.json"
SHARED = ".claude/settings.json"
CHANGES = {
    "cd .claude && rm settings.local.json": LOCAL,
    "echo '{}' > .claude//settings.local.json": LOCAL,
    "rm -rf .claude": LOCAL,
    f"sed -i s/PreToolUse/PreTool/ {LOCAL}": LOCAL,
    f"sed -i s,hook_client.py,other.py,g {LOCAL}": LOCAL,
    f"sed -i s/--local/--bootstrap=127.0.0.1:1/ {LOCAL}": LOCAL,
    """echo '{"disableAllHooks": true}' > """ + SHARED: SHARED,
    """echo '{"env": {"HALTLINE_MODE": "async"}}' > """ + SHARED: SHARED,
    """mkdir ~/.claude; echo '{"disableAllHooks": true}' > ~/.claude/settings.json""": SHARED,
    f"printf '[%.0s' $(seq 99999) > {SHARED}": SHARED,
    f"mkfifo {SHARED}; rm {LOCAL}": LOCAL,
    "mkdir -p ~/.config/haltline; echo '[agent]' > ~/.config/haltline/haltline.toml": ".config/haltline/haltline.toml",
}


def test_a_change_of_what_was_installed_is_told_once_however_it_was_made(machine: Machine) -> None:
    before = machine.settings.read_text()
    assert machine.told() == ""
    for line, file in CHANGES.items():
        assert machine.runs("sh", "-c", line).returncode == 0
        told = machine.told()
        assert (f"{file} is not as it was when the hook was installed" in told, machine.told()) == (True, ""), line
        of_user = [machine.folder / ".claude", machine.folder / ".config/haltline/haltline.toml"]
        machine.runs("rm", "-rf", ".claude", *of_user)
        machine.settings.parent.mkdir()
        machine.settings.write_text(before)
        assert machine.told() == "", line
    machine.settings.write_text(json.dumps(json.loads(before) | {"model": "opus", "permissions": {"allow": ["Bash"]}}))
    assert machine.told() == ""


def test_a_change_of_what_was_installed_is_published(machine: Machine, embedded: EmbeddedBroker) -> None:
    machine.options = ["--bootstrap", embedded.bootstrap]
    with StandIn(embedded.bootstrap) as worker:
        machine.settings.unlink()
        assert "is not as it was" in machine.told()
        wait_until(lambda: worker.of(Kind.HEARTBEAT), "it is published")
        (event,) = worker.of(Kind.HEARTBEAT)
        assert (event.action, event.targets) == ("settings_changed", [f"path={machine.settings}"])


def test_settings_of_another_project_are_another_sessions(machine: Machine) -> None:
    machine.settings.unlink()
    done = machine("PreToolUse", tool_name="Read", session_id="s2", cwd=str(machine.folder))
    assert done.stdout == ""


def test_an_agent_that_does_not_say_where_it_works_is_where_its_hook_is(machine: Machine) -> None:
    machine.settings.unlink()
    hook = {"session_id": "s2", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}}
    command = shlex.join([*HALTLINE, "hook", "--for", "opencode", "--local"])
    done = machine.runs("sh", "-c", f"echo {shlex.quote(json.dumps(hook))} | {command}")
    assert "is not as it was" in done.stdout, done.stderr
