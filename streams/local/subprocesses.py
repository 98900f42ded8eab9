"""Child processes of one command, which end with it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

STOP_WITHIN_S: Final = 25.0
"""The seconds in which a process has to end in order; a worker may take 20 for its last checkpoint."""

_POLL_S = 0.05
_ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class ChildDied(RuntimeError):
    """A required process has ended. The message has the last lines of its output."""


class TimedOut(RuntimeError):
    """A condition did not become true in time."""


class Child:
    """One process with its output in a file."""

    def __init__(
        self, name: str, arguments: Sequence[str], log_file: Path, env: Mapping[str, str], *, must_run: bool
    ) -> None:
        self.name = name
        self.must_run = must_run
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**_without_settings(os.environ), **env},
                start_new_session=True,  # only we receive Ctrl-C, and end our processes in order
            )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._process.poll()

    def last_lines(self, count: int = 15) -> str:
        """Return the end of its output, indented."""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
        return "\n".join(f"    {line}" for line in lines or ["(nothing was printed)"])

    def require_running(self) -> None:
        """Raise ChildDied if it has ended."""
        if (code := self.exit_code) is not None:
            raise ChildDied(
                f"{self.name}: expected it to run, got its end with exit code {code}. "
                f"Last lines of {self.log_file}:\n{self.last_lines()}"
            )

    def terminate(self) -> None:
        """Ask it to end, if it has not ended."""
        if self._process.poll() is None:
            self._process.terminate()

    def stop(self, *, within_s: float) -> int:
        """End it in order, or by force after a timeout. Returns its exit code."""
        self.terminate()
        try:
            return self._process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class Children(AbstractContextManager["Children", None]):
    """The processes of one command: the end of the `with` block ends them all, at the same time.

    Each gets the variables of `env`, and the environment without haltline's own.
    """

    def __init__(
        self, logs: Path, *, env: Mapping[str, str] | None = None, stop_within_s: float = STOP_WITHIN_S
    ) -> None:
        self._logs = logs
        self._env = dict(env or {})
        self._stop_within_s = stop_within_s
        self._children: list[Child] = []

    def start_module(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        must_run: bool = True,
    ) -> Child:
        """Start a Python module with this interpreter; its output goes to a file of its name.

        `must_run`: its end is a failure of the whole.
        """
        # -u: its output is in the file at once
        command = [sys.executable, "-u", "-m", module, *arguments]
        child = Child(name, command, self._logs / f"{name}.log", self._env | dict(env or {}), must_run=must_run)
        self._children.append(child)
        return child

    def require_running(self) -> None:
        """Raise ChildDied if a required process has ended."""
        for child in self._children:
            if child.must_run:
                child.require_running()

    def wait_until(self, condition: Callable[[], object], what: str, *, within_s: float) -> None:
        """Wait for a condition.

        Raises:
            TimedOut: it did not become true.
            ChildDied: a process ended meanwhile.

        """
        deadline = time.monotonic() + within_s
        while not condition():
            self.require_running()
            if time.monotonic() > deadline:
                raise TimedOut(f"expected {what} within {within_s:g} s, it did not happen")
            time.sleep(_POLL_S)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes, at the same time."""
        with _undisturbed():
            for child in reversed(self._children):
                child.terminate()
            until_s = time.monotonic() + self._stop_within_s
            while self._children:
                self._children.pop().stop(within_s=max(0.0, until_s - time.monotonic()))


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without HALTLINE_* and haltline.toml, which refer to another cluster."""
    variables = {name: value for name, value in environment.items() if not name.startswith("HALTLINE_")}
    return variables | {"HALTLINE_CONFIG": ""}  # empty: no file is read


@contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end a command like Ctrl-C within the block, so that its processes are ended too."""
    with _handlers(_interrupt):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay Ctrl-C within the block: started processes must not be left half ended."""
    with _handlers(signal.SIG_IGN):
        yield


@contextmanager
def _handlers(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # handlers can be set only there
        yield
        return
    # Ignored signals stay ignored, as nohup and background processes of a shell require.
    numbers = [number for number in _ENDING_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, previous in zip(numbers, before, strict=True):
            signal.signal(number, previous)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of a handler
    raise KeyboardInterrupt
