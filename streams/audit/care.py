"""Care for the table: fewer files, old rows dropped, one subject's content erased. The chains stay provable.

Each writes a statement into the table in the same breath, so that `haltline audit verify` knows what was done on
purpose, by whom and why. Works while sinks write: where both change the table at one moment, it tries again.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from haltline.streams.audit.chain import CHECKPOINT, ERASED, STATEMENT
from haltline.streams.audit.columns import COLUMNS, Row, to_arrow
from haltline.streams.audit.query import AuditQuery, literal
from haltline.streams.audit.signing import Signer
from haltline.streams.audit.statements import places_of, statement

_ATTEMPTS: Final = 20
_USUAL_HOURS: Final = 168
_KEPT: Final = frozenset(
    ("sink", "topic", "partition", "offset", "timestamp", "timestamp_ms", "event_date", "ingested_at", "prev_offset",
     "record_digest", "chain_hash", "kind", "summary")
)  # fmt: skip
"""Of an erased row: its place in its chain, and what was done to it."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Caretaker:
    """Who does it and why, to which table; signs where it has a key."""

    uri: str | Path
    by: str
    reason: str
    signer: Signer | None = None
    sink: str = "audit"
    storage_options: Mapping[str, str] | None = None

    def compact(self) -> dict[str, Any]:
        """Puts small files together; what it did, as the table's library says it."""
        return dict(self._again(lambda table: table.optimize.compact()))

    def vacuum(self, *, kept_hours: int, dry_run: bool = False) -> list[str]:
        """Deletes files that no commit of the last `kept_hours` hours names; which, or which it would."""
        shorter = kept_hours < _USUAL_HOURS  # the library asks for this word
        return self._open().vacuum(retention_hours=kept_hours, dry_run=dry_run, enforce_retention_duration=not shorter)

    def erase(self, *, session_id: str | None = None, agent_id: str | None = None) -> int:
        """Erases the content of all rows of a session or an agent; how many.

        Digests and places stay. Files that held it stay until `vacuum`.

        Raises:
            ValueError: neither or both were said.

        """
        if (session_id is None) == (agent_id is None):
            raise ValueError("erase: wanted a session or an agent, came neither or both")
        name, value = ("session_id", session_id) if session_id is not None else ("agent_id", agent_id)
        quoted = literal(str(value))
        of_it = f"{name} = {quoted}" if name == "agent_id" else f"({name} = {quoted} OR key = {quoted})"
        where = f"{of_it} AND kind <> '{ERASED}' AND kind <> '{STATEMENT}' AND kind <> '{CHECKPOINT}'"
        erasure = uuid.uuid4().hex
        updates = {f'"{column.name}"': "NULL" for column in COLUMNS if column.name not in _KEPT}
        updates |= {"kind": f"'{ERASED}'", "summary": f"'erased by statement {erasure}'"}
        done = self._again(lambda table: table.update(updates=updates, predicate=where))
        rows = int(done["num_updated_rows"])
        if rows:
            what = {"what": "erasure", "id": erasure, "rows": rows}
            self._state(what, f"{rows} rows of one {name.removesuffix('_id')} erased")
        return rows

    def retain(self, days: int, *, today: date | None = None) -> int:
        """Drops rows of all days but the last `days`, from the beginning of each partition on; how many.

        Rows that stand behind a younger one of their partition stay until that one goes.
        """
        cut = (today or datetime.now(UTC).date()) - timedelta(days=days)
        query = AuditQuery(self.uri, self.storage_options)
        records = f"kind NOT IN ('{CHECKPOINT}', '{STATEMENT}')"
        ends = query.rows(
            'WITH young AS (SELECT sink, "topic", "partition", min("offset") AS "first" FROM audit '
            f'WHERE {records} AND event_date >= DATE \'{cut}\' GROUP BY sink, "topic", "partition") '
            'SELECT a.sink, a."topic", a."partition", max(a."offset") AS "offset", '
            'last_value(a.chain_hash ORDER BY a."offset") AS "chain_hash" FROM audit a LEFT JOIN young y '
            'ON a.sink = y.sink AND a."topic" = y."topic" AND a."partition" = y."partition" '
            f'WHERE a.{records} AND a.sink = {literal(self.sink)} AND (y."first" IS NULL OR a."offset" < y."first") '
            'GROUP BY a.sink, a."topic", a."partition" ORDER BY 2, 3'
        )
        if not ends:
            return 0
        places = places_of([(e["topic"], e["partition"], e["offset"], e["chain_hash"]) for e in ends])
        self._state({"what": "retention", "places": places}, f"rows before {cut} of {len(ends)} partitions dropped")
        dropped = 0
        for end in ends:
            where = (
                f'sink = {literal(self.sink)} AND "topic" IN ({literal(end["topic"])}, '
                f'{literal(end["topic"] + "/checkpoints")}) AND "partition" = {end["partition"]:d} '
                f'AND "offset" <= {end["offset"]:d}'
            )
            done = self._again(lambda table, where=where: table.delete(predicate=where))  # type: ignore[misc]  # binds it
            dropped += int(done["num_deleted_rows"])
        return dropped

    def _state(self, what: Mapping[str, Any], summary: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        row: Row = statement(
            self.signer, self.sink, what, by=self.by, reason=self.reason, summary=summary, now_ms=now_ms
        )
        self._again(lambda table: write_deltalake(table, to_arrow([row]), mode="append", schema_mode="merge"))

    def _again(self, act: Callable[[DeltaTable], _T]) -> _T:
        for _ in range(_ATTEMPTS - 1):
            try:
                return act(self._open())
            except CommitFailedError:  # a sink was faster
                time.sleep(0.05)
        return act(self._open())

    def _open(self) -> DeltaTable:
        return DeltaTable(str(self.uri), storage_options=dict(self.storage_options or {}))
