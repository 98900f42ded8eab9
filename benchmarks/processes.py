"""Child processes and their use of processor time and memory."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from haltline.streams.local.subprocesses import Child, Children

_STOP_WITHIN_S = 45.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

WORKER = "haltline.cli"


def worker_arguments(bootstrap: str, prefix: str, group: str) -> list[str]:
    """Return the arguments of `python -m haltline.cli` for a worker."""
    return ["worker", "--bootstrap", bootstrap, "--prefix", prefix, "--group", group, "--metrics-port", "0"]


def start(children: Children, name: str, module: str, arguments: Sequence[str]) -> Child:
    """Start a module that the caller ends before the end of the `with` block of `children`."""
    return children.start_module(name, module, arguments, must_run=False)


def start_worker(children: Children, name: str, bootstrap: str, prefix: str, group: str, *more: str) -> Child:
    """Start a worker, with `more` arguments."""
    return start(children, name, WORKER, [*worker_arguments(bootstrap, prefix, group), *more])


def stop(child: Child) -> int:
    """Stop a process by SIGTERM, or by SIGKILL at the timeout; return its exit status."""
    return child.stop(within_s=_STOP_WITHIN_S)


def wait_until(child: Child, condition: Callable[[], object], what: str, *, within_s: float) -> None:
    """Wait for a condition that depends on `child`. Raises ChildDied, or RuntimeError at the timeout."""
    deadline = time.monotonic() + within_s
    while not condition():
        child.require_running()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{child.name}: expected {what} within {within_s:.0f} s, it did not happen")
        time.sleep(0.05)


def peak_rss_bytes(pid: int) -> int | None:
    """Peak memory since the start in bytes; None if the system does not report it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


def cpu_s(pid: int) -> float | None:
    """Processor time of all threads so far in seconds; None if the system does not report it."""
    threads = cpu_s_by_thread(pid)
    return None if threads is None else sum(threads.values())


def cpu_s_by_thread(pid: int) -> dict[str, float] | None:
    """Processor time by thread name: `main`, other Python threads by the program's name, librdkafka's by their own."""
    used: dict[str, float] = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            if int(task.name) == pid:
                name = "main"
            elif name.startswith("rdk:"):
                name = "librdkafka"
            user, system = rest.split()[11:13]
            used[name] = used.get(name, 0.0) + (int(user) + int(system)) / _TICKS_PER_S
    except (FileNotFoundError, ProcessLookupError):
        return None
    return used
