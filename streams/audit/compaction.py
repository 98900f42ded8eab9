"""The compaction of the table's small files by a process beside the sink, to keep reading and verifying fast.

A sink commits every few seconds, and each commit adds a file. Compaction takes minutes and memory, so it runs in its
own process with a low priority: the sink only counts its commits, starts the process and reads its result. The process
may be killed anywhere, because its work is one commit. Chains are of rows: compaction does not change them.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from haltline.streams.audit.settings import AuditSettings

_log = logging.getLogger(__name__)

_SMALL_BYTES: Final = 32 * 1024 * 1024
_NICE: Final = 10


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """The result of one run, or its failure."""

    files: int = 0
    """The table's number of files after it."""
    removed: int = 0
    """The number of small files merged; 0: there were too few."""
    deleted: int = 0
    """The number of deleted files, which no commit of the last hours references."""
    seconds: float = 0.0
    failure: str = ""


class Compactor:
    """Starts runs when they are due, one at a time. Called only by the sink's thread; never blocks."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._commits = 0
        self._began_s = time.monotonic()
        self._running: subprocess.Popen[str] | None = None

    def wrote(self) -> None:
        """Count a commit of the sink."""
        self._commits += 1

    def look(self) -> Compacted | None:
        """Start a run if it is due. Returns each finished run once."""
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
        if ended.returncode:
            why = next(iter(complaint.strip().splitlines()[-1:]), "nothing was said")
            output = json.dumps({"failure": f"exit code {ended.returncode}: {why}"})
        return replace(Compacted(**json.loads(output)), seconds=time.monotonic() - self._began_s)

    def close(self) -> None:
        """Stop the current run; a later one replaces it."""
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
        # Not as arguments, because a process list would show a store's keys. It fits into the pipe.
        started.stdin.write(json.dumps(order))
        started.stdin.close()
        started.stdin = None
    return started


def compact_if_many(
    table: str, storage_options: Mapping[str, str], *, least_files: int, kept_hours: int | None
) -> Compacted:
    """Merge small files if there are at least `least_files`, and delete files unused for `kept_hours` hours.

    Raises OSError and DeltaError.
    """
    from deltalake import DeltaTable  # noqa: PLC0415  # large; the sink's process has it anyway, others need none

    from haltline.streams.audit.maintenance import Caretaker  # noqa: PLC0415

    care = Caretaker(table, "", "", storage_options=storage_options)
    sizes = _sizes(DeltaTable(table, storage_options=dict(storage_options)))
    if sum(size < _SMALL_BYTES for size in sizes) < least_files:
        return Compacted(files=len(sizes))
    done = care.compact()
    deleted = 0 if kept_hours is None else len(care.vacuum(kept_hours=kept_hours))
    files = len(_sizes(DeltaTable(table, storage_options=dict(storage_options))))
    return Compacted(files=files, removed=int(done["numFilesRemoved"]), deleted=deleted)


def _sizes(table: object) -> list[int]:
    actions = table.get_add_actions(flatten=True)  # type: ignore[attr-defined]  # a DeltaTable, imported where it is needed
    return [int(size) for size in actions.column("size_bytes").to_pylist()]


def main() -> None:
    """Run once: JSON settings from standard input, a JSON result on standard output."""
    os.nice(_NICE)
    order = json.load(sys.stdin)
    options = order.pop("storage_options")
    json.dump(asdict(compact_if_many(order.pop("table"), options, **order)), sys.stdout)


if __name__ == "__main__":
    main()
