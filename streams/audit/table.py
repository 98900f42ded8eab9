"""The storage of rows: the table interface of the sink, and its implementation as a Delta table."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from arro3.core import RecordBatchReader
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from haltline.streams.audit.chain import CHECKPOINTS
from haltline.streams.audit.columns import INDEXED, PARTITION_COLUMN, SCHEMA, Block, Row, batches
from haltline.streams.audit.engine import answer
from haltline.streams.audit.query import literal
from haltline.streams.private_files import DATA, make_folder


class TableConflict(Exception):
    """Another writer has changed the table since it was opened."""


class OpenTable(Protocol):
    """A snapshot of a table."""

    def version(self, app_id: str) -> int | None:
        """Return the version that `app_id` last committed, or None if it never did."""

    def chain_ends(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        """Return the `chain_hash` of the row that covers these last offsets, by topic and partition."""

    def last_signed(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the offset that the last checkpoint covers, by topic and partition, if it reaches the given one."""

    def append(self, rows: Iterable[Row | Block], versions: Mapping[str, int]) -> None:
        """Add the rows and set the versions by app id, atomically.

        Versions that other ids committed meanwhile do not matter.

        Raises:
            TableConflict: one of these app ids has committed since the table was opened, or the table was changed
            otherwise. Open it again and compare.

        """


class AuditTable(Protocol):
    """A persistent table, shared by any number of writers."""

    def open(self) -> OpenTable:
        """The table as it is now; made when it is not there yet."""


# A commit reads the log since the last checkpoint; a checkpoint lists every file of the table.
_CHECKPOINT_EVERY_COMMITS: Final = 50
_LOG_KEPT_DAYS: Final = 7


class DeltaAuditTable:
    """A Delta table in a folder, or in a store that `storage_options` give access to.

    Versions are Delta's application transactions. They survive checkpoints, compaction,
    deletion and vacuum; a process that is killed leaves at worst a file that no commit names.
    """

    def __init__(self, uri: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = str(uri)
        self._options = dict(storage_options or {})

    def open(self) -> "OpenDeltaTable":
        """Open the table, and create it if it does not exist.

        A new handle each time: one that is kept and updated grows with every commit.

        Raises:
            OSError, DeltaError: it cannot be read or created.

        """
        try:
            return OpenDeltaTable(self._load())
        except TableNotFoundError:
            return OpenDeltaTable(self._create())

    def _load(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self._options)

    def _create(self) -> DeltaTable:
        folder = Path(self.uri).parent
        if folder.name == DATA and "://" not in self.uri:
            make_folder(folder)
        try:
            return DeltaTable.create(
                self.uri,
                schema=SCHEMA,
                mode="error",
                partition_by=[PARTITION_COLUMN],
                name="audit",
                description="haltline's audit: every record of every topic, once",
                configuration={
                    "delta.dataSkippingStatsColumns": INDEXED,
                    "delta.checkpointInterval": str(_CHECKPOINT_EVERY_COMMITS),
                    "delta.logRetentionDuration": f"interval {_LOG_KEPT_DAYS} days",
                    # delta.setTransactionRetentionDuration stays unset: it would drop the versions
                },
                storage_options=self._options,
            )
        except DeltaError as error:
            try:
                return self._load()  # another sink created it at the same time
            except TableNotFoundError:
                raise error from None


# All cells differ: a dictionary of them would only cost memory and time. For some, minimum and maximum mean nothing.
_PLAIN: Final = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
_EACH_ONCE: Final = ColumnProperties(dictionary_enabled=False)
WRITER: Final = WriterProperties(
    compression="ZSTD",
    compression_level=1,  # for recorded sessions its files are as small as with level 3, in three quarters of the time
    column_properties=dict.fromkeys(("raw", "record_digest", "chain_hash"), _PLAIN)
    | dict.fromkeys(("offset", "prev_offset", "event_time", "event_id", "call_id", "summary"), _EACH_ONCE),
)


class OpenDeltaTable:
    """A snapshot and the handle to commit on it.

    Their unity keeps a zombie out. Delta refuses a commit if the app id has committed since the handle was opened; a
    newly opened handle would accept any version, also a lower one. So the handle that was compared must be the one that
    commits.
    """

    def __init__(self, handle: DeltaTable) -> None:
        self._handle = handle

    def version(self, app_id: str) -> int | None:
        """Return the version that `app_id` last committed, or None if it never did."""
        return self._handle.transaction_version(app_id)

    def chain_ends(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        """Return the `chain_hash` of the last row up to these offsets, by topic and partition.

        Raises:
            QueryFailed: it cannot be read.

        """
        if not places or "chain_hash" not in [field.name for field in self._handle.schema().fields]:
            return {}  # without rows that have a hash, from a release without chains
        found: dict[tuple[str, int], str] = {}
        for topic in sorted({topic for topic, _ in places}):
            found |= self._ends_of(
                sink, topic, {part: offset for (name, part), offset in places.items() if name == topic}
            )
        return {place: found[place] for place in places if place in found}

    def _ends_of(self, sink: str, topic: str, offsets: Mapping[int, int]) -> dict[tuple[str, int], str]:
        """Return the last row of each partition. Files that end before the least of the known ends are skipped."""
        least = min(offsets.values())
        where = f"sink = {literal(sink)} AND topic = {literal(topic)}"
        # The last row may cover more than its own offset, and then begins before it.
        ends: dict[tuple[str, int], str] = {}
        for near in (f'{where} AND "offset" >= {least:d}', where):
            sql = (
                'SELECT "partition", last_value(chain_hash ORDER BY "offset") AS "end" '
                f'FROM audit WHERE {near} GROUP BY "partition"'
            )
            ends |= {(topic, row["partition"]): row["end"] for row in answer(self._handle, sql).rows}
            if offsets.keys() <= {partition for _, partition in ends}:
                break
        return ends

    def last_signed(self, sink: str, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the last signed offset, by topic and partition, if it is at or after the given one.

        Raises:
            QueryFailed: it cannot be read.

        """
        if not places:
            return {}
        names = ", ".join(literal(topic + CHECKPOINTS) for topic in sorted({topic for topic, _ in places}))
        sql = (
            'SELECT topic, "partition", max("offset") AS "last" FROM audit '
            f'WHERE sink = {literal(sink)} AND topic IN ({names}) AND "offset" >= {min(places.values()):d} '
            'GROUP BY topic, "partition"'
        )
        found: dict[tuple[str, int], int] = {}
        for row in answer(self._handle, sql).rows:
            place = row["topic"].removesuffix(CHECKPOINTS), row["partition"]
            if place in places and row["last"] >= places[place]:
                found[place] = row["last"]
        return found

    def append(self, rows: Iterable[Row | Block], versions: Mapping[str, int]) -> None:
        """Add the rows and set the versions, in one commit. The handle cannot be used afterwards.

        All rows are made before the first is written: otherwise the library would request them on its few threads,
        which would block its other work while several of them wait for Python.

        Raises:
            TableConflict: a version or the table has changed since it was opened.
            OSError, DeltaError: it cannot be written. It is then unknown whether the commit was made.

        """
        there = [field.name for field in self._handle.schema().fields]
        made = list(batches(rows))
        try:
            write_deltalake(
                self._handle,
                RecordBatchReader.from_batches(SCHEMA, made),
                mode="append",
                schema_mode=None if there == SCHEMA.names else "merge",  # an older or newer table
                writer_properties=WRITER,
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(app_id, version) for app_id, version in versions.items()]
                ),
            )
        except CommitFailedError as error:
            raise TableConflict(str(error)) from error
