"""Load of other processes on the machine during a measurement.

The load average includes the measured processes. So the processor time of this process and its descendants is
subtracted from that of the whole system, for each part of a run.
"""

import os
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

LOUD_FROM: Final = 0.05
"""The share of all cores' time from which other load makes figures unreliable."""

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    """Seconds since an arbitrary start: wall time times cores, used by all processes, and used by ours."""

    capacity_s: float
    used_s: float
    own_s: float


def others_share(before: Reading, after: Reading) -> float:
    """The share of all cores' time that other processes used between two readings, 0 to 1."""
    capacity_s = after.capacity_s - before.capacity_s
    if capacity_s <= 0:
        return 0.0
    others_s = (after.used_s - before.used_s) - (after.own_s - before.own_s)
    return min(1.0, max(0.0, others_s / capacity_s))


def used_ticks(stat: str) -> tuple[int, int]:
    """From the text of /proc/stat: ticks used by programs or stolen by the host, and the number of cores.

    Interrupts are not counted, and cores that wait for a disk are idle.
    """
    lines = stat.splitlines()
    user, nice, system, _idle, _wait, _irq, _softirq, steal = (int(part) for part in lines[0].split()[1:9])
    return user + nice + system + steal, sum(line.startswith("cpu") for line in lines) - 1


def tree_ticks(stats: Mapping[int, str], root: int) -> int:
    """Ticks of the descendants of a process, with those of their children that have ended.

    `stats`: the text of /proc/PID/stat by process id.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for pid, stat in stats.items():
        fields = stat.rpartition(")")[2].split()
        parents[pid] = int(fields[1])
        ticks[pid] = sum(int(part) for part in fields[11:15])
    return sum(ticks[pid] for pid in ticks if pid != root and _descends(pid, root, parents))


def _descends(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) != 0:
        if pid == root:
            return True
    return False


def read() -> Reading | None:
    """Return the current reading; None on a system without /proc."""
    try:
        ticks, cores = used_ticks(Path("/proc/stat").read_text())
    except (OSError, ValueError):
        return None
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stats[int(folder.name)] = (folder / "stat").read_text()
        except OSError:  # it has ended
            continue
    own = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    own_s = sum(used.ru_utime + used.ru_stime for used in own) + tree_ticks(stats, os.getpid()) / _TICKS_PER_S
    return Reading(time.monotonic() * cores, ticks / _TICKS_PER_S, own_s)


@dataclass
class Watch:
    """The load of the machine during the parts of a run."""

    average_before: list[float] = field(default_factory=lambda: list(os.getloadavg()))
    others_by_part: dict[str, float] = field(default_factory=dict)
    """The share of all cores' time that other processes used; no entry if the system does not report it."""
    seconds_by_part: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure the load while the block runs."""
        before, began = read(), time.monotonic()
        try:
            yield
        finally:
            after = read()
            self.seconds_by_part[name] = round(time.monotonic() - began, 1)
            if before is not None and after is not None:
                self.others_by_part[name] = round(others_share(before, after), 4)

    def as_json(self) -> dict[str, Any]:
        """Return the load with the verdict and its text `note`."""
        return {
            "average_before": self.average_before,
            "average_after": list(os.getloadavg()),
            "others_share_by_part": self.others_by_part,
            "seconds_by_part": self.seconds_by_part,
            "loud_from": LOUD_FROM,
            "quiet": is_quiet(self.others_by_part),
            "note": note(self.others_by_part),
        }


def is_quiet(others_by_part: Mapping[str, float]) -> bool | None:
    """Whether other load was low in every part; None: not known."""
    return max(others_by_part.values()) < LOUD_FROM if others_by_part else None


def note(others_by_part: Mapping[str, float]) -> str:
    """The warning about the load for readers of the figures; empty if the machine was quiet."""
    if not others_by_part:
        return "Whether others used the machine is not known: the system does not say."
    loud = {part: share for part, share in others_by_part.items() if share >= LOUD_FROM}
    if not loud:
        return ""
    parts = ", ".join(f"{part} {share:.0%}" for part, share in loud.items())
    return f"The machine was not quiet: others used this share of all cores during {parts}. Measure again."
