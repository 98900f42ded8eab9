"""Care for the table: fewer files, old rows dropped, one subject's content erased. The chains stay provable.

Erasing and dropping are stated in the table before they are done, so that `haltline audit verify` knows what was done
on purpose, by whom and why, wherever it was interrupted. Works while sinks write: where both change the table at one
moment, it tries again.
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
    """Who does it and why, to which table; signs where it has a key."""

    uri: str | Path
    by: str
    reason: str
    signer: Signer | None = None
    sink: str = "audit"
    storage_options: Mapping[str, str] | None = None

    def compact(self) -> dict[str, Any]:
        """Puts small files together; what it did, as the table's library says it."""
        # One at a time: each takes the memory of the files that it puts together.
        return dict(self._again(lambda table: table.optimize.compact(max_concurrent_tasks=1, writer_properties=WRITER)))

    def vacuum(self, *, kept_hours: int, dry_run: bool = False) -> list[str]:
        """Deletes files that no commit of the last `kept_hours` hours names; which, or which it would."""
        shorter = kept_hours < _USUAL_HOURS  # the library asks for this word
        return self._open().vacuum(retention_hours=kept_hours, dry_run=dry_run, enforce_retention_duration=not shorter)

    def erase(self, *, session_id: str | None = None, agent_id: str | None = None) -> int:
        """Erases the content of all rows of a session or an agent; how many.

        Digests and places stay. Files that held it stay until `vacuum`. 1. It is stated what is to be done, with a
        digest over the rows. 2. It is done to exactly these, in one commit. 3. It is stated that it was done. Whoever
        is interrupted does it again.

        Raises:
            ValueError: neither or both were said, there is no key for a table that is signed, or somebody else
                erased or dropped some of these rows at the same moment.

        """
        if (session_id is None) == (agent_id is None):
            raise ValueError("erase: expected a session or an agent, got neither or both")
        self._require_key("erase")
        self._finish()
        name, value = ("session_id", session_id) if session_id is not None else ("agent_id", agent_id)
        quoted = literal(str(value))
        of_it = f"({name} = {quoted} OR key = {quoted})"
        if name == "agent_id":  # what was said to it and of it; entries of control have its name in the key
            entry = literal(f"{ScopeKind.AGENT}:{agent_id}")
            of_it = f"({name} = {quoted} OR (scope = '{ScopeKind.AGENT}' AND scope_id = {quoted}) OR key = {entry})"
        where = f"{of_it} AND kind <> '{ERASED}' AND kind <> '{STATEMENT}' AND kind <> '{CHECKPOINT}'"
        # What sinks write of it meanwhile is not among the rows that are stated: it is for the next erasure.
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
        """States of erasures that were interrupted that they were done, where what is there is what they stated."""
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
            # Other rows than were stated are `verify`'s to tell, and must not be signed.
            if finished["rows"] and meant[erasure].get("digest", finished["digest"]) == finished["digest"]:
                erasure_statement = {"what": ERASURE, "id": erasure, **finished}
                self._state(erasure_statement, f"{finished['rows']} rows had been erased by one who was interrupted")

    def retain(self, days: int, *, today: date | None = None) -> int:
        """Drops rows of all days but the last `days`, from the beginning of each partition on; how many.

        Rows that stand behind a younger one of their partition stay until that one goes. It is stated first, and done
        in one commit: whoever is interrupted does it again.

        Raises:
            ValueError: there is no key for a table that is signed.

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
        """By erasure, for those of which rows are dropped: the digest over those of its rows that stay."""
        left = {summary: Digest() for summary in summaries}
        for row in self._in_order(f"kind = '{ERASED}' AND NOT ({dropped})", columns="record_digest, summary"):
            if row["summary"] in left:
                left[row["summary"]].add(row)
        return {summary.removeprefix(_ERASED_BY): digest.hexdigest() for summary, digest in left.items()}

    def _rows(self, where: str, table: DeltaTable | None = None) -> dict[str, Any]:
        """How many rows these are, and the digest over them, as statements say it."""
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
        """A statement that is not signed as the table is would look like a forged one from then on."""
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
            except CommitFailedError:  # a sink was faster
                time.sleep(0.05)
        return act(self._open())

    def _open(self) -> DeltaTable:
        return DeltaTable(str(self.uri), storage_options=dict(self.storage_options or {}))


def _up_to(end: Mapping[str, Any]) -> str:
    """The rows of a partition up to one of them, and what was signed of them."""
    topics = f"{literal(end['topic'])}, {literal(end['topic'] + CHECKPOINTS)}"
    return f'("topic" IN ({topics}) AND "partition" = {end["partition"]:d} AND "offset" <= {end["offset"]:d})'


def _until(end: Mapping[str, Any]) -> str:
    """The rows of a partition up to one of them."""
    place = (
        f'sink = {literal(end["sink"])} AND "topic" = {literal(end["topic"])} AND "partition" = {end["partition"]:d}'
    )
    return f'({place} AND "offset" <= {end["offset"]:d})'


def _emptied(table: DeltaTable, erasure: str) -> dict[str, str]:
    """What becomes of the columns of an erased row, also of those that only another release knows."""
    there = [field.name for field in table.schema().fields]
    emptied = {f'"{name}"': "NULL" for name in there if name not in KEPT_OF_ERASED}
    return emptied | {"kind": f"'{ERASED}'", "summary": f"'{_ERASED_BY}{erasure}'"}
