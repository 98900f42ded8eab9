"""Processes of this machine, as /proc has them."""

from pathlib import Path
from typing import Final, NamedTuple

HAS_PROC: Final = Path("/proc/self/stat").exists()
"""Whether this system has /proc; on others, `ps` lists the processes."""


class ProcessStat(NamedTuple):
    """What /proc/PID/stat says of a process (proc_pid_stat(5))."""

    pid: int
    name: str
    state: str
    parent: int
    start: str
    """Clock ticks since the start of the system, by which another process with the same id differs."""


def stat_of(pid: int) -> ProcessStat | None:
    """Return what /proc says of a process; None: it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")  # the name may contain any characters
    fields = rest.split()
    return ProcessStat(pid, name, fields[0], int(fields[1]), fields[19])
