"""Maintenance of the table: compaction, retention, and erasure of one subject's content. Chains stay provable.

Erasure and retention are first recorded in the table as statements with scope, operator and reason, so that `haltline
audit verify` can tell them from tampering, even after an interruption. Sinks may write meanwhile: after a conflict, it
retries.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from haltline.schemas.decisions import ScopeKind
from haltline.streams.audit.chain import (
    CHECKPOINT,
    CHECKPOINTS,
    ERASED,
    KEPT_OF_ERASED,
    STATEMENT,
    Digest,
    lost_until,
)
from haltline.streams.audit.columns import Row, to_arrow
from haltline.streams.audit.query import AuditQuery, literal
from haltline.streams.audit.signing import Signer
from haltline.streams.audit.statements import ERASURE, INTENDED, RETENTION, statement
from haltline.streams.audit.table import WRITER

_ATTEMPTS: Final = 20
_USUAL_HOURS: Final = 168
_ERASED_BY: Final = "erased by statement "
_T = TypeVar("_T")


@dataclass(frozen=True)
class Caretaker:
    """Maintenance of one table, by a person for a reason; signs statements if it has a key."""

    uri: str | Path
    by: str
    reason: str
    signer: Signer | None = None
    sink: str = "audit"
    storage_options: Mapping[str, str] | None = None

    def compact(self) -> dict[str, Any]:
        """Merge small files. Returns the library's report."""
        # One task at a time: each takes the memory of the files that it merges.
        return dict(self._again(lambda table: table.optimize.compact(max_concurrent_tasks=1, writer_properties=WRITER)))

    def vacuum(self, *, kept_hours: int, dry_run: bool = False) -> list[str]:
        """Delete files that no commit of the last `kept_hours` hours references.

        Returns them; with `dry_run`, only that.
        """
        shorter = kept_hours < _USUAL_HOURS  # the library requires this flag
        return self._open().vacuum(retention_hours=kept_hours, dry_run=dry_run, enforce_retention_duration=not shorter)

    def erase(self, *, session_id: str | None = None, agent_id: str | None = None) -> int:
        """Erase the content of all rows of a session or an agent. Returns the number of rows.

        Digests and positions stay. Files with the content stay until `vacuum`. The steps: 1. record the intention, with
        a digest over the rows; 2. erase exactly these rows, in one commit; 3. record the completion. After an
        interruption, run it again.

        Raises:
            ValueError: neither or both ids were given, there is no key for a signed table, or another process erased or
            dropped some of these rows at the same time.

        """
        if (session_id is None) == (agent_id is None):
            raise ValueError("erase: expected a session or an agent, got neither or both")
        self._require_key("erase")
        self._finish()
        name, value = ("session_id", session_id) if session_id is not None else ("agent_id", agent_id)
        quoted = literal(str(value))
        of_it = f"({name} = {quoted} OR key = {quoted})"
        if name == "agent_id":  # its inputs and outputs; entries of control have its name in the key
            entry = literal(f"{ScopeKind.AGENT}:{agent_id}")
            of_it = f"({name} = {quoted} OR (scope = '{ScopeKind.AGENT}' AND scope_id = {quoted}) OR key = {entry})"
        where = f"{of_it} AND kind <> '{ERASED}' AND kind <> '{STATEMENT}' AND kind <> '{CHECKPOINT}'"
        # Rows that sinks write meanwhile are not part of the statement: they are left to the next erasure.
        ends = self._ask(
            'SELECT sink, "topic", "partition", max("offset") AS "offset" FROM audit '
            f'WHERE {where} GROUP BY sink, "topic", "partition"'
        )
        if not ends:
            return 0
        where = f"{where} AND ({' OR '.join(map(_until, ends))})"
        stated = self._rows(where)
        erasure = uuid.uuid4().hex
        whose = f"rows of one {name.removesuffix('_id')}"
        self._state({"what": INTENDED, "id": erasure, **stated}, f"{whose} are to be erased")

        def erase_these(table: DeltaTable) -> None:
            if self._rows(where, table) != stated:
                raise ValueError(f"erase: {self.uri}: some of the rows were erased or dropped meanwhile: do it again")
            table.update(updates=_emptied(table, erasure), predicate=where)

        self._again(erase_these)
        rows = int(stated["rows"])
        self._state({"what": ERASURE, "id": erasure, **stated}, f"{rows} {whose} erased")
        return rows

    def _finish(self) -> None:
        """Record the completion of interrupted erasures, if the rows match their statements."""
        meant: dict[str, dict[str, Any]] = {}
        done: set[str] = set()
        for row in self._ask(f"SELECT raw FROM audit WHERE kind = '{STATEMENT}'"):
            erasure_statement = orjson.loads(row["raw"])
            if erasure_statement.get("what") == INTENDED:
                meant[erasure_statement["id"]] = erasure_statement
            elif erasure_statement.get("what") == ERASURE:
                done.add(erasure_statement["id"])
        for erasure in sorted(meant.keys() - done):
            finished = self._rows(f"summary = {literal(_ERASED_BY + erasure)}")
            # Differing rows are left for `verify` to report, and must not be signed.
            if finished["rows"] and meant[erasure]["digest"] == finished["digest"]:
                erasure_statement = {"what": ERASURE, "id": erasure, **finished}
                self._state(erasure_statement, f"{finished['rows']} rows had been erased by one who was interrupted")

    def retain(self, days: int, *, today: date | None = None) -> int:
        """Drop rows older than the last `days` days, from the start of each partition. Returns the number of rows.

        Rows after a younger row of their partition stay until that one is dropped. A statement is recorded first, and
        the rows are dropped in one commit. After an interruption, run it again.

        Raises:
            ValueError: there is no key for a signed table.

        """
        self._require_key("retain")
        cut = (today or datetime.now(UTC).date()) - timedelta(days=days)
        records = f"kind NOT IN ('{CHECKPOINT}', '{STATEMENT}')"
        ends = self._ask(
            'WITH young AS (SELECT sink, "topic", "partition", min("offset") AS "first" FROM audit '
            f'WHERE {records} AND event_date >= DATE \'{cut}\' GROUP BY sink, "topic", "partition") '
            'SELECT a.sink, a."topic", a."partition", max(a."offset") AS "offset", '
            'last_value(a.kind ORDER BY a."offset") AS kind, last_value(a.summary ORDER BY a."offset") AS summary, '
            'last_value(a.chain_hash ORDER BY a."offset") AS "chain_hash" FROM audit a LEFT JOIN young y '
            'ON a.sink = y.sink AND a."topic" = y."topic" AND a."partition" = y."partition" '
            f'WHERE a.{records} AND a.sink = {literal(self.sink)} AND (y."first" IS NULL OR a."offset" < y."first") '
            'GROUP BY a.sink, a."topic", a."partition" ORDER BY 2, 3'
        )
        if not ends:
            return 0
        ends = [{**end, "offset": lost_until(end)} for end in ends]
        where = f"sink = {literal(self.sink)} AND (" + " OR ".join(map(_up_to, ends)) + ")"
        erased = self._ask(
            f"SELECT summary, count(*) AS rows FROM audit WHERE kind = '{ERASED}' AND {where} GROUP BY summary"
        )
        content = {
            "what": RETENTION,
            "places": [{name: end[name] for name in ("topic", "partition", "offset", "chain_hash")} for end in ends],
            "erased": {row["summary"].removeprefix(_ERASED_BY): row["rows"] for row in erased},
            "left": self._left_of_erased([row["summary"] for row in erased], where),
        }
        self._finish()
        self._state(content, f"rows before {cut} of {len(ends)} partitions dropped")
        return int(self._again(lambda table: table.delete(predicate=where))["num_deleted_rows"])

    def _left_of_erased(self, summaries: Iterable[str], dropped: str) -> dict[str, str]:
        """Return, for each erasure with dropped rows, the digest over its remaining rows."""
        left = {summary: Digest() for summary in summaries}
        for row in self._in_order(f"kind = '{ERASED}' AND NOT ({dropped})", columns="record_digest, summary"):
            if row["summary"] in left:
                left[row["summary"]].add(row)
        return {summary.removeprefix(_ERASED_BY): digest.hexdigest() for summary, digest in left.items()}

    def _rows(self, where: str, table: DeltaTable | None = None) -> dict[str, Any]:
        """Return the number of these rows and the digest over them, as in statements."""
        digest, rows = Digest(), 0
        for row in self._in_order(where, table):
            digest.add(row)
            rows += 1
        return {"rows": rows, "digest": digest.hexdigest()}

    def _in_order(
        self, where: str, table: DeltaTable | None = None, columns: str = "record_digest"
    ) -> Iterator[dict[str, Any]]:
        sql = f"SELECT {Digest.ORDER}, {columns} FROM audit WHERE {where} ORDER BY {Digest.ORDER}"
        return AuditQuery(self.uri, self.storage_options, table=table).iter_rows(sql)

    def _require_key(self, act: str) -> None:
        """Raise if there is no key for a signed table: an unsigned statement in it would look forged."""
        newest = self._ask(f"SELECT raw FROM audit WHERE kind = '{CHECKPOINT}' ORDER BY ingested_at DESC LIMIT 1")
        if not newest:
            return
        expected = orjson.loads(newest[0]["raw"])["key_id"]
        if self.signer is None or self.signer.key_id != expected:
            got = "none" if self.signer is None else f"key {self.signer.key_id}"
            raise ValueError(f"{act}: {self.uri} is signed: expected its key {expected} (--signing-key), got {got}")

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        return AuditQuery(self.uri, self.storage_options).rows(sql)

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
            except CommitFailedError:  # a sink committed first
                time.sleep(0.05)
        return act(self._open())

    def _open(self) -> DeltaTable:
        return DeltaTable(str(self.uri), storage_options=dict(self.storage_options or {}))


def _up_to(end: Mapping[str, Any]) -> str:
    """Return the SQL condition for the rows of a partition up to one of them, and for their checkpoints."""
    topics = f"{literal(end['topic'])}, {literal(end['topic'] + CHECKPOINTS)}"
    return f'("topic" IN ({topics}) AND "partition" = {end["partition"]:d} AND "offset" <= {end["offset"]:d})'


def _until(end: Mapping[str, Any]) -> str:
    """Return the SQL condition for the rows of a partition up to one of them."""
    place = (
        f'sink = {literal(end["sink"])} AND "topic" = {literal(end["topic"])} AND "partition" = {end["partition"]:d}'
    )
    return f'({place} AND "offset" <= {end["offset"]:d})'


def _emptied(table: DeltaTable, erasure: str) -> dict[str, str]:
    """Return the new values of an erased row's columns, also of those that only another release has."""
    there = [field.name for field in table.schema().fields]
    emptied = {f'"{name}"': "NULL" for name in there if name not in KEPT_OF_ERASED}
    return emptied | {"kind": f"'{ERASED}'", "summary": f"'{_ERASED_BY}{erasure}'"}
