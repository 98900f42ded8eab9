"""The processes above a hook or a command, and whether a coding agent is among them.

What an agent runs is below it, whatever its command line says. A terminal proves nothing, as `script` gives one to any
program. What leaves the tree (`setsid`, cron) is not seen here.
"""

import contextlib
import os
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

from haltline.interventions.agent.processes import HAS_PROC, stat_of
from haltline.schemas import expressions as re

AGENTS: Final = frozenset(
    {"claude", "codex", "gemini", "opencode", "cline", "cursor-agent", "copilot", "aider", "qwen"}
)
"""The programs of coding agents, which count before they have run a hook."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
_INTERPRETER: Final = re.compile(r"(?:node|bun|deno|python[\d.]*)$")
_COMMAND: Final = re.compile(r"-[a-z]*c")
_MAX_DEPTH: Final = 64
Started = tuple[int, str]
"""The id of a process and its start, by which another process with the same id differs."""


class Process(NamedTuple):
    """A process, as far as it can be read."""

    started: Started
    parent: int
    name: str
    words: tuple[str, ...]
    """Its command line."""

    @property
    def agent(self) -> str:
        """The name of the coding agent that it is, as a program or an interpreter's script; empty: none is known."""
        names = [self.name, *map(_base, self.words[:1])]
        if self.words and _INTERPRETER.match(_base(self.words[0])):
            names += [_base(word) for word in self.words[1:] if not word.startswith("-")][:1]
        return next((name for name in names if name in AGENTS), "")


def agent_above(pid: int, known: Collection[Started]) -> Process | None:
    """Return the nearest coding agent above a process: one that has run hooks, or has an agent's name."""
    return next((one for one in _chain(pid)[1:] if one.started in known or one.agent), None)


def of_hook(pid: int, known: Collection[Started]) -> tuple[Process | None, Process | None]:
    """Return the agent that runs a hook's process, and the agent that this one is below of; None: not known, or none.

    An agent's process that only starts another one of the same agent, as some do, is no agent above it.
    """
    chain = _chain(pid)[1:]
    while chain and _base("".join(chain[0].words[:1])).lstrip("-") in _SHELLS:
        if not any(map(_COMMAND.fullmatch, chain[0].words[1:3])):
            return None, None  # the shell of a person, who tries the hook
        del chain[0]
    if not chain or chain[0].parent <= 1:  # an orphan's, or a daemon, below which there may be anything
        return None, None
    agent, *rest = chain
    while rest and agent.agent and rest[0].agent == agent.agent and rest[0].started not in known:
        del rest[0]
    return agent, next((one for one in rest if one.started in known or one.agent), None)


def folder_of(pid: int) -> str:
    """Return the working directory of a process; empty: not known, as on macOS."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/cwd")
    return ""


def _chain(pid: int) -> list[Process]:
    """Return a process and those above it."""
    read = _of_proc if HAS_PROC else _of_ps()
    found: list[Process] = []
    while pid > 0 and len(found) < _MAX_DEPTH and (process := read(pid)) is not None:
        found.append(process)
        pid = process.parent
    return found


def _of_proc(pid: int) -> Process | None:
    with contextlib.suppress(OSError):  # it may end meanwhile
        if (found := stat_of(pid)) is not None:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
            return Process((pid, found.start), found.parent, found.name, tuple(words))
    return None


def _of_ps() -> Callable[[int], Process | None]:
    """Read all processes with one `ps`, where there is no /proc."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,lstart=,command="], capture_output=True, check=False, env={"LC_ALL": "C"}
    )
    found = {}
    for line in listed.stdout.decode(errors="replace").splitlines():
        pid, parent, *start = line.split(None, 7)[:7]
        words = tuple(line.split()[7:])
        found[int(pid)] = Process((int(pid), " ".join(start)), int(parent), _base("".join(words[:1])), words)
    return found.get


def _base(word: str) -> str:
    """Return the name of a program or a script."""
    return re.sub(r"\.(?:[cm]?js|py)$", "", word.rpartition("/")[2])
