"""The processes under test, restarted when they end, as by a supervisor."""

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.request import urlopen

from benchmarks import processes
from haltline.streams.local.subprocesses import Child, Children

_RESTART_AFTER_S = (0.2, 2.0)
_ANSWER_WITHIN_S = 2.0


@dataclass(frozen=True)
class Happened:
    """One line of the run's log."""

    at_s: float
    target: str
    what: str


@dataclass
class Member:
    """One process by its role, with the number of its starts (lives)."""

    name: str
    arguments: Sequence[str]
    module: str
    is_ready: Callable[[Child], bool]
    child: Child
    lives: int = 1
    struck: str | None = None
    """The fault that may end this life."""
    frozen: bool = False
    restart_at: float | None = None


@dataclass
class Fleet:
    """All processes. Times are in seconds of `time.monotonic`; those of the log count from `began`."""

    children: Children
    module: str
    rng: random.Random
    began: float = field(default_factory=time.monotonic)
    members: dict[str, Member] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    """The number of lives of processes that were stopped."""
    story: list[Happened] = field(default_factory=list)
    tell: Callable[[str], None] = print

    def add(self, name: str, arguments: Sequence[str], *, port_option: str = "--metrics-port") -> None:
        """Start a process with a readiness endpoint and keep it running."""
        port = _free_port()
        self.add_module(name, self.module, [*arguments, port_option, str(port)], is_ready=lambda _: _is_ready(port))

    def add_module(
        self, name: str, module: str, arguments: Sequence[str], *, is_ready: Callable[[Child], bool]
    ) -> None:
        """Like `add`, for another module with another readiness check."""
        life = self.ended.pop(name, 0) + 1
        child = self._start(name, life, module, arguments)
        self.members[name] = Member(name, arguments, module, is_ready, child, lives=life)

    def note(self, target: str, what: str) -> None:
        """Add a line to the log."""
        happened = Happened(round(time.monotonic() - self.began, 1), target, what)
        self.story.append(happened)
        self.tell(f"{happened.at_s:7.1f} s  {target:10} {what}")

    def strike(self, name: str, number: signal.Signals) -> None:
        """Send a process a signal that may end it; a no-op when it is down."""
        if name not in self.members:
            self.note(name, f"{number.name}: was stopped already")
            return
        member = self.members[name]
        if member.child.exit_code is not None:
            self.note(name, f"{number.name}: was down already")
            return
        os.kill(member.child.pid, number)
        member.struck = number.name
        self.note(name, number.name + (" while frozen" if member.frozen else ""))

    def freeze(self, name: str, seconds: float) -> float | None:
        """Send SIGSTOP to a process. Return the time to thaw it; None when it is down or frozen already."""
        member = self.members[name]
        if member.child.exit_code is not None or member.frozen:
            self.note(name, "SIGSTOP: was down or frozen already")
            return None
        os.kill(member.child.pid, signal.SIGSTOP)
        member.frozen, member.struck = True, f"SIGSTOP for {seconds:g} s"
        self.note(name, f"SIGSTOP for {seconds:g} s")
        return time.monotonic() + seconds

    def thaw(self, name: str) -> None:
        """Send SIGCONT to a frozen process."""
        member = self.members[name]
        if member.frozen:
            member.frozen = False
            if member.child.exit_code is None:
                os.kill(member.child.pid, signal.SIGCONT)
                self.note(name, "SIGCONT")

    def supervise(self) -> None:
        """Log processes that ended, and restart them after a random delay. Call it often."""
        for member in self.members.values():
            code = member.child.exit_code
            if code is None:
                continue
            if member.restart_at is None:
                member.frozen = False
                why = f"after {member.struck}" if member.struck else "by itself"
                text = "" if code in (0, -signal.SIGKILL) else f": {_last_line(member.child)}"
                self.note(member.name, f"ended with {code} {why}{text}")
                member.restart_at = time.monotonic() + self.rng.uniform(*_RESTART_AFTER_S)
            elif time.monotonic() >= member.restart_at:
                member.lives += 1
                member.child = self._start(member.name, member.lives, member.module, member.arguments)
                member.restart_at = member.struck = None
                self.note(member.name, f"started again, life {member.lives}")

    def not_ready(self) -> list[str]:
        """Return the processes that do not run or are not ready."""
        return [
            member.name
            for member in self.members.values()
            if member.child.exit_code is not None or not member.is_ready(member.child)
        ]

    def end(self, name: str) -> int:
        """Stop a process permanently by SIGTERM; return its exit status."""
        member = self.members.pop(name)
        self.ended[name] = member.lives
        code = processes.stop(member.child)
        self.note(name, f"SIGTERM at the end, ended with {code}")
        return code

    def thaw_all(self) -> None:
        """Continue every frozen process, because a frozen one does not handle SIGTERM."""
        for name in self.members:
            self.thaw(name)

    def _start(self, name: str, life: int, module: str, arguments: Sequence[str]) -> Child:
        return self.children.start_module(f"{name}.{life}", module, arguments, must_run=False)


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_ANSWER_WITHIN_S) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:  # not listening yet, or not ready
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _last_line(child: Child) -> str:
    lines = child.last_lines(200).strip().splitlines()
    return next((line.strip() for line in reversed(lines) if "ends:" in line), lines[-1].strip())[:200]
