"""An audit table in memory, faster than a folder, and with simulated commit failures."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from haltline.streams.audit.chain import CHECKPOINT, CHECKPOINTS
from haltline.streams.audit.columns import Block, Row
from haltline.streams.audit.table import TableConflict


class Step(StrEnum):
    """The steps at which a use of the table can be interrupted or fail, in order."""

    OPEN = "open"
    """Before anything is read."""
    COMMIT = "commit"
    """The rows are made, but not written."""
    ANSWER = "answer"
    """The commit is made. After a failure here, the writer does not know that."""


class MemoryAuditTable:
    """A table that keeps rows in commit order, and isolates writers like the Delta table. Thread-safe.

    `at_step` is called at each step, by the thread that uses the table and without a lock. Its exceptions (OSError for
    a full disk or a lost connection, TableConflict for a retry that conflicts with its own first try) reach the user of
    the table. Others may use the table meanwhile.
    """

    def __init__(self, *, at_step: Callable[[Step], object] = lambda _: None) -> None:
        self.rows: list[Row] = []
        self.at_step = at_step
        self._versions: dict[str, int] = {}
        self._commits: dict[str, int] = {}
        self._lock = threading.Lock()

    def open(self) -> "OpenMemoryTable":
        """Return the table as it is now."""
        self.at_step(Step.OPEN)
        with self._lock:
            return OpenMemoryTable(self, len(self.rows), dict(self._versions), dict(self._commits))

    def commit(self, rows: Sequence[Row], versions: Mapping[str, int], seen: Mapping[str, int]) -> None:
        """Add the rows unless an app id of `versions` has committed since `seen`. Raises TableConflict."""
        self.at_step(Step.COMMIT)
        with self._lock:
            for app_id in versions:
                if self._commits.get(app_id, 0) != seen.get(app_id, 0):
                    raise TableConflict(f"{app_id} has committed since the table was opened")
            for app_id, version in versions.items():
                self._versions[app_id] = version
                self._commits[app_id] = self._commits.get(app_id, 0) + 1
            self.rows.extend(rows)
        self.at_step(Step.ANSWER)


class OpenMemoryTable:
    """A snapshot of a table in memory."""

    def __init__(
        self, table: MemoryAuditTable, rows: int, versions: Mapping[str, int], commits: Mapping[str, int]
    ) -> None:
        self._table = table
        self._rows = rows
        self._versions = versions
        self._commits = commits

    def version(self, app_id: str) -> int | None:
        """Return the version that `app_id` last committed, or None if it never did."""
        return self._versions.get(app_id)

    def chain_ends(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        """Return the `chain_hash` of the last row, by topic and partition."""
        ends: dict[tuple[str, int], str] = {}
        for row in self._table.rows[: self._rows] if places else ():
            place = (row["topic"], row["partition"])
            if row["sink"] == sink and place in places and row.get("chain_hash"):
                ends[place] = row["chain_hash"]
        return ends

    def last_signed(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the last signed offset, by topic and partition, if it is at or after the given one."""
        found: dict[tuple[str, int], int] = {}
        for row in self._table.rows[: self._rows] if places else ():
            place = (row["topic"].removesuffix(CHECKPOINTS), row["partition"])
            if row["sink"] == sink and row.get("kind") == CHECKPOINT and row["offset"] >= places.get(place, 1 << 63):
                found[place] = max(found.get(place, 0), row["offset"])
        return found

    def append(self, rows: Iterable[Row | Block], versions: Mapping[str, int]) -> None:
        """Add the rows and set the versions: all of it, or nothing. Raises TableConflict."""
        each = [row for one in rows for row in (one if isinstance(one, Block) else (one,))]
        self._table.commit(each, versions, self._commits)
