"""Each agent with its installed hook, and a model of this machine instead of its own."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.at_terminal import at_terminal
from tests.coding_agents.model import Model
from tests.coding_agents.programs import require
from tests.programs import ended, printed

KUBECTL = '#!/bin/sh\necho "$*" >> {made}\necho "the configmap is still there"\n'
_QUIET = {
    "ANTHROPIC_API_KEY": "sk-none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",  # it may run as root
    "GEMINI_API_KEY": "none",
    "OPENAI_API_KEY": "none",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "NPM_CONFIG_OFFLINE": "true",  # for opencode, which installs the types of plugins
}
Done = subprocess.CompletedProcess[str]
Command = Callable[["Home", str, str], list[str]]
"""The command line for a prompt; with a session's id, which goes on."""


@dataclass(frozen=True)
class Agent:
    """How an agent is started."""

    name: str
    """As in `haltline hook --for`."""
    program: str
    tool: str
    argument: str
    command: Command
    prepare: Callable[["Home", Model], None] = lambda _home, _model: None

    def model(self, command: str, calls: int) -> Model:
        """A model that runs this command so many times."""
        more = {} if self.name == "codex" else {"description": "As asked"}
        return Model(self.tool, lambda _: {self.argument: command} | more, calls)


class Home:
    """A user's home and project on this machine, with the hook installed and a `kubectl` that deletes nothing."""

    def __init__(self, folder: Path, agent: Agent) -> None:
        self.folder, self.agent = folder, agent
        self.program = require(agent.program)
        self.work, self.made = folder / "work", folder / "made"
        self.work.mkdir()
        kubectl = folder / "bin" / "kubectl"
        kubectl.parent.mkdir()
        kubectl.write_text(KUBECTL.format(made=shlex.quote(str(self.made))))
        kubectl.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "PYTHONPATH", "TERM", "LANG"}}
        self.environ = kept | _QUIET | {"HOME": str(folder), "HALTLINE_RUN_DIR": str(folder / "run")}
        self.environ["PATH"] = f"{kubectl.parent}:{kept['PATH']}"
        (folder / ".profile").write_text(f'PATH="{self.environ["PATH"]}"\n')  # for an agent with a login shell
        self.haltline("hook", "install", "--for", agent.name, "--local")

    def run(self, model: Model, prompt: str = "Delete the customers' configmap", session: str = "") -> Done:
        """Runs the agent once, as a program does."""
        with model.serving():
            self.agent.prepare(self, model)
            environ = self.environ | {"ANTHROPIC_BASE_URL": model.url, "GOOGLE_GEMINI_BASE_URL": model.url}
            command = self.agent.command(self, prompt, session)
            return ended(*command, cwd=self.work, env=environ, stdin=subprocess.DEVNULL)

    def haltline(self, *arguments: str) -> str:
        return printed(sys.executable, "-m", "haltline.cli", *arguments, cwd=self.work, env=self.environ)

    def release(self, session: str) -> None:
        """Its user releases a session."""
        command = (sys.executable, "-m", "haltline.cli", "hook", "release", session)
        assert at_terminal(*command, cwd=self.work, env=self.environ).returncode == 0

    def calls_made(self) -> int:
        """How many calls of `kubectl` were made."""
        return len(self.made.read_text().splitlines()) if self.made.exists() else 0

    def end_service(self) -> None:
        """Ends the local service as a crash does; the agent's next hook starts another."""
        for entry in filter(lambda entry: entry.name.isdigit(), Path("/proc").iterdir()):
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"cli.agent.service" in command and str(self.folder).encode() in command:
                os.kill(int(entry.name), signal.SIGKILL)


def _claude_code(home: Home, prompt: str, session: str) -> list[str]:
    more = ["--resume", session] if session else []
    asks = ["--output-format", "json", "--permission-mode", "bypassPermissions"]
    return [str(home.program), "-p", prompt, *asks, *more]


def _codex(home: Home, prompt: str, session: str) -> list[str]:
    more = ["resume", session] if session else []
    trusts = ["--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
    return [str(home.program), "exec", *trusts, *more, prompt]


def _gemini_cli(home: Home, prompt: str, session: str) -> list[str]:
    more = ["--resume", session] if session else []
    return [str(home.program), "--yolo", "-m", "gemini-2.5-flash", *more, "-p", prompt]


def _opencode(home: Home, prompt: str, session: str) -> list[str]:
    more = ["--session", session] if session else []
    return [str(home.program), "run", *more, prompt]


def _with_codex_settings(home: Home, model: Model) -> None:
    settings = home.folder / ".codex" / "config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(
        'model = "gpt-5-codex"\nmodel_provider = "here"\napproval_policy = "never"\n'
        'sandbox_mode = "danger-full-access"\n'
        f'[model_providers.here]\nname = "here"\nbase_url = "{model.url}/v1"\nwire_api = "responses"\n'
        'env_key = "OPENAI_API_KEY"\n'
        f'[projects."{home.work}"]\ntrust_level = "trusted"\n'
    )


def _with_gemini_settings(home: Home, _: Model) -> None:
    folder = home.folder / ".gemini"
    folder.mkdir(exist_ok=True)
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    file = folder / "settings.json"
    kept = json.loads(file.read_text()) if file.exists() else {}  # the hook
    file.write_text(json.dumps(kept | auth | {"general": {"enableAutoUpdate": False}}))
    (folder / "trustedFolders.json").write_text(json.dumps({str(home.work): "TRUST_FOLDER"}))


def _with_opencode_settings(home: Home, model: Model) -> None:
    here = {"options": {"baseURL": f"{model.url}/v1", "apiKey": "none"}}
    name = "anthropic/claude-sonnet-4-5"
    settings: dict[str, object] = {"model": name, "small_model": name}
    settings |= {"autoupdate": False, "share": "disabled", "permission": {"bash": "allow"}}
    (home.work / "opencode.json").write_text(json.dumps(settings | {"provider": {"anthropic": here}}))


CLAUDE_CODE = Agent("claude-code", "claude-code", "Bash", "command", _claude_code)
CLAUDE_CODE_OF_MAY = Agent("claude-code", "claude-code of May 2026", "Bash", "command", _claude_code)
CODEX = Agent("codex", "codex", "exec_command", "cmd", _codex, _with_codex_settings)
GEMINI_CLI = Agent("gemini-cli", "gemini-cli", "run_shell_command", "command", _gemini_cli, _with_gemini_settings)
OPENCODE = Agent("opencode", "opencode", "bash", "command", _opencode, _with_opencode_settings)
