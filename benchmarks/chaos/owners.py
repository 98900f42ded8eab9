"""The owners of partitions, from the log lines of workers that became their owner."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LINE: Final = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) .*: owns (?:changelog )?partitions (.*)$")
_CLAIM: Final = re.compile(r"(\d+)\D+?(-?\d+)")
"""A partition and the offset of its claim, as in `1 (claim at offset 3579), 3 (claim at offset 4816)`."""


@dataclass(frozen=True)
class Owner:
    """A process that became the owner of a partition."""

    process: str
    """The name of its log: the worker and the number of its life."""
    pid: int | None
    partition: int
    claim: int
    """The offset of its claim in the changelog."""
    at_ms: int
    """The time of the log line, in ms since 1970."""

    def __str__(self) -> str:
        pid = "" if self.pid is None else f", pid {self.pid}"
        return f"{self.process}{pid}, claim at {self.claim}"


class Owners:
    """The owners of one group's partitions, by partition in order of their claims."""

    def __init__(self, owners: Iterable[Owner] = ()) -> None:
        self._of: dict[int, list[Owner]] = {}
        for owner in sorted(owners, key=lambda owner: owner.claim):
            self._of.setdefault(owner.partition, []).append(owner)

    def at_offset(self, partition: int, offset: int) -> Owner | None:
        """Return the owner of a partition at an offset of its changelog; None when no log names one."""
        before = [owner for owner in self._of.get(partition, ()) if owner.claim <= offset]
        return before[-1] if before else None

    def at_time(self, partition: int, time_ms: int) -> Owner | None:
        """Return the owner at a time; before the first owner, that one, which reads the records later."""
        owners = sorted(self._of.get(partition, ()), key=lambda owner: owner.at_ms)
        before = [owner for owner in owners if owner.at_ms <= time_ms]
        return before[-1] if before else next(iter(owners), None)


def owners_of(logs: Iterable[Path], pids: Mapping[str, int]) -> Owners:
    """Read the owners from the logs of a group's workers; `pids` are by the names of logs."""
    return Owners(owner for file in logs for owner in _of_log(file.stem, file.read_text(errors="replace"), pids))


def _of_log(name: str, text: str, pids: Mapping[str, int]) -> Iterable[Owner]:
    for found in filter(None, map(_LINE.match, text.splitlines())):
        local = time.strptime(found[1], "%Y-%m-%d %H:%M:%S")  # logged without a zone, in local time
        at_ms = int(time.mktime(local)) * 1000 + int(found[2])
        for partition, claim in _CLAIM.findall(found[3]):
            yield Owner(name, pids.get(name), int(partition), int(claim), at_ms)
