"""A process and its descendants: which of them run, and how to end them all.

On Linux this process adopts orphaned descendants (`PR_SET_CHILD_SUBREAPER`), so that a daemon of a grandchild stays in
the tree. On other systems such a daemon is found only while its parents run.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Final

from haltline.interventions.agent.processes import HAS_PROC, stat_of

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02
KILL_WITHIN_S: Final = 10.0
"""Seconds after SIGKILL: a process that still runs then hangs in the kernel."""


def adopt_orphans() -> bool:
    """Adopt orphans below this process as its children. False: this system does not support it."""
    if not sys.platform.startswith("linux"):
        return False
    done = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return bool(done == 0)


def living_below(root: int) -> list[int]:
    """Return the ids of the running processes below one, without zombies."""
    below: dict[int, list[int]] = {}
    living: set[int] = set()
    for pid, parent, state in _processes():
        below.setdefault(parent, []).append(pid)
        if state not in "ZX":
            living.add(pid)
    found, left = [], [root]
    while left:
        children = below.get(left.pop(), [])
        left += children
        found += [pid for pid in children if pid in living]
    return sorted(found)


def end_tree(root: int, grace_s: float, *, spared: frozenset[int] = frozenset()) -> list[int]:
    """End the processes below `root`: SIGTERM, then SIGKILL after `grace_s` seconds. Returns those that still run."""
    _signal(living := _below(root, spared), signal.SIGTERM)
    until = time.monotonic() + grace_s
    while living and time.monotonic() < until:
        time.sleep(_POLL_S)
        _reap()
        living = _below(root, spared)
    until = time.monotonic() + KILL_WITHIN_S
    while living and time.monotonic() < until:
        _signal(living, signal.SIGSTOP)  # stopped processes start no new ones while the others are ended
        _signal(living, signal.SIGKILL)
        time.sleep(_POLL_S)
        _reap()
        living = _below(root, spared)
    return living


def _below(root: int, spared: frozenset[int]) -> list[int]:
    return [pid for pid in living_below(root) if pid not in spared]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap() -> None:
    """Reap adopted processes that have ended; Popen reaps our own child."""
    for pid in _zombies_of(os.getpid()):
        if pid not in _waited:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


_waited: set[int] = set()


def waited_for(pid: int) -> None:
    """Mark a child that is reaped elsewhere."""
    _waited.add(pid)


def _zombies_of(parent_id: int) -> list[int]:
    return [pid for pid, parent, state in _processes() if parent == parent_id and state == "Z"]


def _processes() -> list[tuple[int, int, str]]:
    """Return id, parent's id and state of every process."""
    if not HAS_PROC:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
        rows = (line.split(None, 2) for line in listed.stdout.splitlines())
        return [(int(pid), int(parent), state[:1]) for pid, parent, state in rows]
    found = (stat_of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [(one.pid, one.parent, one.state) for one in found if one is not None]
