"""A sink as its own process that can be told to die, or to stand still, at one exact step of a commit."""

import argparse
import logging
import os
import resource
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from haltline.schemas.topics import Topics
from haltline.streams.audit.columns import Block, Row
from haltline.streams.audit.run import run_audit
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.table import AuditTable, DeltaAuditTable, OpenTable


class Step(StrEnum):
    """Where a commit is hit, in the order in which it is made."""

    BEFORE_WRITE = "before-write"
    """The table was looked at, nothing is written yet."""
    AMID_ROWS = "amid-rows"
    """Some rows are handed over, and may be in a file."""
    AFTER_ROWS = "after-rows"
    """All rows are handed over, nothing is in the table's log."""
    AFTER_WRITE = "after-write"
    """Rows and versions are in the table; neither the sink nor Kafka's group knows."""
    AFTER_OFFSETS = "after-offsets"
    """The sink knows, and has told the group."""


class HitTable:
    """The Delta table; at one step of one commit the process sends itself a signal."""

    def __init__(self, table: AuditTable, step: Step, commit: int, number: signal.Signals) -> None:
        self._table = table
        self._step = step
        self._left = commit
        self._signal = number

    def open(self) -> OpenTable:
        self.reached(Step.AFTER_OFFSETS)
        return HitOpenTable(self._table.open(), self)

    def commits(self) -> None:
        self._left -= 1

    def reached(self, step: Step) -> None:
        if step is self._step and self._left == 0:
            self._left -= 1
            os.kill(os.getpid(), self._signal)


class HitOpenTable:
    def __init__(self, opened: OpenTable, table: HitTable) -> None:
        self._opened = opened
        self._table = table

    def version(self, app_id: str) -> int | None:
        return self._opened.version(app_id)

    def chain_ends(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        return self._opened.chain_ends(sink, places)

    def last_signed(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return self._opened.last_signed(sink, places)

    def append(self, rows: Iterable[Row | Block], versions: Mapping[str, int]) -> None:
        self._table.commits()
        self._table.reached(Step.BEFORE_WRITE)
        self._opened.append(self._handed_over(rows), versions)
        self._table.reached(Step.AFTER_WRITE)

    def _handed_over(self, rows: Iterable[Row | Block]) -> Iterator[Row | Block]:
        for some in rows:
            yield some
            self._table.reached(Step.AMID_ROWS)
        self._table.reached(Step.AFTER_ROWS)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--group", default="haltline-audit")
    parser.add_argument("--flush-s", type=float, default=0.2)
    parser.add_argument("--flush-rows", type=int, default=500)
    parser.add_argument("--session-timeout-s", type=float, default=4.0)
    parser.add_argument("--instance-id")
    parser.add_argument("--signing-key", type=Path)
    parser.add_argument("--hit", nargs=3, metavar=("STEP", "COMMIT", "SIGNAL"))
    parser.add_argument("--file-limit-bytes", type=int)
    given = parser.parse_args()
    if given.file_limit_bytes:  # a larger file fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.file_limit_bytes, resource.RLIM_INFINITY))
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    table: AuditTable = DeltaAuditTable(given.table)
    if given.hit:
        step, commit, number = given.hit
        table = HitTable(table, Step(step), int(commit), signal.Signals[number])
    settings = AuditSettings(
        bootstrap=given.bootstrap,
        topics=Topics(given.prefix),
        table=given.table,
        group=given.group,
        flush_s=given.flush_s,
        flush_rows=given.flush_rows,
        session_timeout_s=given.session_timeout_s,
        fetch_wait_ms=20,
        instance_id=given.instance_id,
        signing_key=given.signing_key,
        sign_every=100,
    )
    return run_audit(settings, table=table)


if __name__ == "__main__":
    sys.exit(main())
