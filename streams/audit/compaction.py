"""The table's small files are put together by a process beside the sink, so that reading and verifying stay quick.

A sink commits every few seconds, and each commit adds a file. What puts them together works for minutes and takes
memory, so it is a process of its own with a low priority: the sink only counts its commits, starts it and hears what it
did. It may be killed anywhere, as what it does is one commit. Chains are of rows: they do not change with files.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from haltline.streams.audit.settings import AuditSettings

_log = logging.getLogger(__name__)

_SMALL_BYTES: Final = 32 * 1024 * 1024
_NICE: Final = 10


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """What one run has done to the table."""

    files: int
    """Of the table, after it."""
    removed: int
    """Small files that were put together; 0: there were too few of them."""
    added: int
    deleted: int
    """Files that nothing needed any more, as no commit of the last hours names them."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that has ended."""

    what: Compacted | Exception
    """What it did, or why it failed."""
    seconds: float


class Compactor:
    """Starts a run when there is reason to, one at a time. Called by the sink's thread alone; never waits."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._commits = 0
        self._began_s = time.monotonic()
        self._running: subprocess.Popen[str] | None = None

    def wrote(self) -> None:
        """The sink has committed once more."""
        self._commits += 1

    def look(self) -> Ended | None:
        """Starts a run when it is time; tells once of each that has ended."""
        if self._running is None:
            now_s = time.monotonic()
            many = 0 < self._settings.compact_commits <= self._commits
            if many and now_s - self._began_s >= self._settings.compact_every_s:
                self._commits, self._began_s = 0, now_s
                self._running = _start(self._settings)
            return None
        if self._running.poll() is None:
            return None
        ended, self._running = self._running, None
        output, complaint = ended.communicate()
        seconds = time.monotonic() - self._began_s
        if ended.returncode:
            lines = complaint.strip().splitlines()
            why = OSError(f"exit code {ended.returncode}: {lines[-1] if lines else 'nothing was said'}")
            return Ended(what=why, seconds=seconds)
        return Ended(what=Compacted(**json.loads(output)), seconds=seconds)

    def close(self) -> None:
        """Ends a run that is under way: the next one does it."""
        if self._running is not None:
            self._running.kill()
            self._running.communicate()
            self._running = None


def _start(settings: AuditSettings) -> "subprocess.Popen[str]":
    order = {
        "table": settings.table,
        "storage_options": dict(settings.storage_options),
        "least_files": settings.compact_commits,
        "kept_hours": settings.vacuum_hours,
    }
    started = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if started.stdin is not None:
        # Not as arguments: whoever lists processes would see a store's keys. It fits into the pipe.
        started.stdin.write(json.dumps(order))
        started.stdin.close()
        started.stdin = None
    return started


def compact_if_many(
    table: str, storage_options: Mapping[str, str], *, least_files: int, kept_hours: int | None
) -> Compacted:
    """Puts small files together where there are so many, and deletes what nothing has needed for so many hours.

    Raises OSError and DeltaError.
    """
    from deltalake import DeltaTable  # noqa: PLC0415  # large; the sink's process has it anyway, others need none

    from haltline.streams.audit.maintenance import Caretaker  # noqa: PLC0415

    care = Caretaker(table, "", "", storage_options=storage_options)
    sizes = _sizes(DeltaTable(table, storage_options=dict(storage_options)))
    if sum(size < _SMALL_BYTES for size in sizes) < least_files:
        return Compacted(files=len(sizes), removed=0, added=0, deleted=0)
    done = care.compact()
    deleted = 0 if kept_hours is None else len(care.vacuum(kept_hours=kept_hours))
    files = len(_sizes(DeltaTable(table, storage_options=dict(storage_options))))
    removed, added = int(done["numFilesRemoved"]), int(done["numFilesAdded"])
    return Compacted(files=files, removed=removed, added=added, deleted=deleted)


def _sizes(table: object) -> list[int]:
    actions = table.get_add_actions(flatten=True)  # type: ignore[attr-defined]  # a DeltaTable, imported where it is needed
    return [int(size) for size in actions.column("size_bytes").to_pylist()]


def main() -> None:
    """One run: what to do comes as JSON on standard input, what was done goes to standard output."""
    os.nice(_NICE)
    order = json.load(sys.stdin)
    options = order.pop("storage_options")
    json.dump(asdict(compact_if_many(order.pop("table"), options, **order)), sys.stdout)


if __name__ == "__main__":
    main()
