"""The verification of the audit: no row was changed, removed, added, doubled or moved; or the first that was.

What is proved, and by what:
- a row's content, by its `record_digest`; its columns, by reading the record again, except for the time of reading,
  what the sink redacted before, and rows of topics that this release no longer has;
- that no row between two others is missing or new, by the chain of its partition (`haltline.streams.audit.chain`);
- that the end is not cut off, by the written offset in the table's own log; that the table was not restored as a whole
  to an older version, log included, only by statements that were kept elsewhere (a witness);
- that nobody recomputed the chains, by signed checkpoints, with the public key alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from haltline.schemas.topics import REMOVED, Topics
from haltline.streams.audit.chain import (
    CHECKPOINT,
    CHECKPOINTS,
    ERASED,
    OF_KAFKA,
    STATEMENT,
    Digest,
    Head,
    chain_hash,
    lost_until,
    record_digest,
)
from haltline.streams.audit.engine import in_order
from haltline.streams.audit.query import AuditQuery, QueryFailed, literal
from haltline.streams.audit.reading import Reader
from haltline.streams.audit.row_consistency import difference, left_of_erased, statement_difference
from haltline.streams.audit.signing import is_genuine
from haltline.streams.audit.statements import ERASURE, INTENDED, RETENTION, STATEMENTS

Place = tuple[str, str, int]
"""Sink, topic, partition."""

_PARTITIONS_AT_ONCE: Final = 256
_REMOVED: Final = tuple(f".{name}" for name in REMOVED)


@dataclass(frozen=True)
class Problem:
    """The first problem of a partition, or of a statement."""

    place: str
    """`topic[partition]`, or another subject."""
    offset: int | None
    what: str

    def __str__(self) -> str:
        at = "" if self.offset is None else f" at offset {self.offset}"
        return f"{self.place}{at}: {self.what}"


class Verdict(StrEnum):
    """The verdict of a verification."""

    VERIFIED = "verified"
    """The chains are complete, and their signatures match the given public key as far as they are signed."""
    INTACT_UNSIGNED = "intact_unsigned"
    """The chains are complete. No key was given: anyone who can write the table could have recomputed them."""
    NOT_INTACT = "not_intact"

    @property
    def words(self) -> str:
        """Return a human-readable verdict."""
        return {Verdict.VERIFIED: "VERIFIED", Verdict.INTACT_UNSIGNED: "INTACT, UNSIGNED"}.get(self, "NOT INTACT")


@dataclass
class Verification:
    """The result of a verification: counts and problems."""

    partitions: int = 0
    rows: int = 0
    erased: int = 0
    """Rows whose content was deleted on purpose; their positions are proved."""
    unfinished: int = 0
    """Interrupted erasures without a statement of their rows' number. The next erasure adds it."""
    checkpoints: int = 0
    """The number of signed statements checked."""
    unsigned: int = 0
    """Rows after the last checkpoint of their partition: chained, but not signed yet."""
    passed_over: int = 0
    """Rows of topics that this release no longer has: chained, but their columns are not compared."""
    problems: list[Problem] = field(default_factory=list)
    with_key: bool = False
    """Whether signatures were checked with a public key."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of this verification."""
        if self.problems:
            return Verdict.NOT_INTACT
        return Verdict.VERIFIED if self.with_key else Verdict.INTACT_UNSIGNED

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


@dataclass
class _Erasure:
    """The statements of one erasure, and the rows of it."""

    intended: int = 0
    done: int | None = None
    dropped: int = 0
    stated: list[str] = field(default_factory=list)
    """Digests over its rows: as intended, as done, and after each retention."""
    seen: int = 0
    over: Digest = field(default_factory=Digest)


class Verifier:
    """Verifies one table."""

    def __init__(
        self,
        uri: str | Path,
        storage_options: Mapping[str, str] | None = None,
        *,
        topics: Topics | None = None,
        public_key: Ed25519PublicKey | None = None,
        witness: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`witness` are checkpoints that were kept elsewhere. Raises DeltaError and OSError if there is no table."""
        self._topics = topics or Topics()
        self._key = public_key
        self._table = DeltaTable(str(uri), storage_options=dict(storage_options or {}))
        self._query = AuditQuery(uri, storage_options, table=self._table)
        self._signed: dict[Place, dict[int, str]] = {}
        self._visited: set[Place] = set()
        self._begins: dict[Place, list[Head]] = {}
        self._erasures: dict[str, _Erasure] = {}
        self._witness = witness
        self.found = Verification(with_key=public_key is not None)

    def run(self) -> Iterator[tuple[Place, int]]:
        """Verify partition by partition; yields each with its number of rows before it starts. See `found`."""
        try:
            self._statements()
            for place, rows in self._places():
                yield place, rows
                self.found.partitions += 1
                self._visited.add(place)
                self._chain(place)
            self._unvisited()
            for statement, erasure in self._erasures.items():
                self._erased(statement, erasure)
        except Exception as error:
            # For a missing or damaged file, the table's library raises nothing more specific.
            if type(error) is not Exception and not isinstance(error, QueryFailed | OSError | DeltaError):
                raise
            self._wrong("table", None, f"it cannot be read whole, a file is missing or damaged: {error}")

    def _unvisited(self) -> None:
        """Check what was signed or written of partitions without rows, and whether anything was signed at all."""
        for place in sorted(self._signed.keys() - self._visited):
            if beyond := self._not_dropped(place, self._signed[place]):
                what = f"it has no rows, and a checkpoint was signed at {max(beyond)}: its rows were removed"
                self._wrong(_name(place), None, what)
        for place in self._written_places() - self._visited - self._signed.keys():
            if written := self._not_dropped(place, [self._written(place) or 0]):
                what = f"it has no rows, and the table's log says that rows up to {written[0]} were written"
                self._wrong(_name(place), None, what)
        if self._key is None or self.found.problems or self.found.checkpoints or (not self.found.rows and self._begins):
            return
        if self.found.rows:
            what = "expected at least one checkpoint that was signed with this key, got none: nothing proves its chains"
        else:
            what = "it has no records at all: either it is new, or it was put in the place of another one"
        self._wrong("table", None, what)

    def _not_dropped(self, place: Place, offsets: Iterable[int]) -> list[int]:
        """Return the offsets after those that were dropped on purpose."""
        dropped = max((head.offset for head in self._begins.get(place, ())), default=-1)
        return [offset for offset in offsets if offset > dropped]

    def _written_places(self) -> set[Place]:
        """Return partitions without rows whose version the table's log has; they can only be requested one by one."""
        known = self._visited | self._signed.keys()
        sinks = {place[0] for place in known} or {"audit"}
        most = max((place[2] for place in known), default=0)
        topics = {*self._topics.all, *(place[1] for place in known)}
        every = {(s, t, p) for s in sinks for t in topics for p in range(min(most, _PARTITIONS_AT_ONCE) + 1)}
        return {place for place in every - self._visited if self._written(place) is not None}

    def _written(self, place: Place) -> int | None:
        sink, topic, partition = place
        return self._table.transaction_version(f"{sink}-{topic}-{partition}")

    def _places(self) -> list[tuple[Place, int]]:
        counted = self._query.rows(
            'SELECT sink, "topic", "partition", count(*) AS "rows" FROM audit '
            f"WHERE {OF_KAFKA} "
            'GROUP BY sink, "topic", "partition" ORDER BY sink, "topic", "partition"'
        )
        return [((row["sink"], row["topic"], row["partition"]), row["rows"]) for row in counted]

    def _statements(self) -> None:
        rows = self._query.iter_rows(f"SELECT * FROM audit WHERE kind IN ('{CHECKPOINT}', '{STATEMENT}')")
        for row in rows:
            try:
                content = orjson.loads(row["raw"] or b"")
                if not self._is_genuine(content, row["topic"], row["offset"]):
                    continue
                if what := statement_difference(row, content):
                    self._wrong(row["topic"], row["offset"], what)
                self._statement(row["kind"], content)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                what = f"expected a statement, got one that cannot be read: {type(error).__name__}: {error}"
                self._wrong(row["topic"], row["offset"], what)
        for seen in self._witness:
            if self._is_genuine(seen, "witness", seen.get("offset")):
                self._checkpoint(seen)

    def _statement(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == CHECKPOINT:
            self._checkpoint(content)
        elif content["what"] in {INTENDED, ERASURE}:
            erasure = self._erasures.setdefault(str(content["id"]), _Erasure())
            erasure.stated.append(content["digest"])
            if content["what"] == INTENDED:
                erasure.intended = int(content["rows"])
            else:
                erasure.done = int(content["rows"])
        elif content["what"] == RETENTION:
            for name, rows_dropped in content["erased"].items():
                erasure = self._erasures.setdefault(name, _Erasure())
                erasure.dropped += int(rows_dropped)
                erasure.stated.append(content["left"][name])
            for kept in content["places"]:
                place = (content["sink"], kept["topic"], kept["partition"])
                self._begins.setdefault(place, []).append(Head(kept["offset"], kept["chain_hash"]))

    def _is_genuine(self, content: Mapping[str, Any], about: str, offset: int | None) -> bool:
        if self._key is None or is_genuine(content, self._key):
            return True
        self._wrong(
            about, offset, f"its signature is not that of the public key (it names key {content.get('key_id')})"
        )
        return False

    def _checkpoint(self, content: Mapping[str, Any]) -> None:
        place = (str(content["sink"]), str(content["topic"]).removesuffix(CHECKPOINTS), int(content["partition"]))
        known = self._signed.setdefault(place, {})
        if known.setdefault(content["offset"], content["chain_hash"]) != content["chain_hash"]:
            self._wrong(_name(place), content["offset"], "two checkpoints say different things of one offset")
        self.found.checkpoints += 1

    def _chain(self, place: Place) -> None:
        reader = None if place[1].endswith(_REMOVED) else Reader(self._topics, place[0])
        signed = dict(self._signed.get(place, {}))
        head: Head | None = None
        broken = False
        last_signed = -1
        since_signed = 0
        for row in self._rows(place):
            self.found.rows += 1
            self.found.passed_over += reader is None
            if row["chain_hash"] is None or row["record_digest"] is None:
                broken = broken or self._wrong(_name(place), row["offset"], "a row without a hash: nothing proves it")
                continue
            if head is None:
                head = self._start(place, row)
            what = self._problem(row, head, reader)
            if what and not broken:
                broken = self._wrong(_name(place), row["offset"], what)
            head = Head(lost_until(row), row["chain_hash"])
            last_signed = self._compare(place, signed, head, last_signed)
            since_signed = 0 if last_signed == head.offset else since_signed + 1
        self.found.unsigned += since_signed
        if not broken and head is not None:
            self._end(place, head, signed)

    def _compare(self, place: Place, signed: dict[int, str], head: Head, last: int) -> int:
        expected = signed.pop(head.offset, None)
        if expected is None:
            return last
        if expected != head.hash:
            self._wrong(_name(place), head.offset, "its hash is not the one that was signed: the chain was recreated")
        return head.offset

    def _start(self, place: Place, row: Mapping[str, Any]) -> Head | None:
        """Return the chain's end before the first row: None, or after rows that were dropped on purpose."""
        if row["prev_offset"] is None:
            return None
        return next((h for h in self._begins.get(place, ()) if h.offset == row["prev_offset"]), None)

    def _problem(self, row: Mapping[str, Any], head: Head | None, reader: Reader | None) -> str:
        behind = None if head is None else head.offset
        if row["prev_offset"] != behind:
            if behind is not None and row["offset"] <= behind:
                return f"it comes again, or in another order: it stands behind offset {behind}"
            return f"it was written behind offset {row['prev_offset']}, and stands behind {behind}: rows were removed"
        if row["kind"] == ERASED:
            self._note_erased(row)
            if what := left_of_erased(row):
                return what
        elif record_digest(row) != row["record_digest"]:
            return "its key, time, headers or value were changed"
        if chain_hash(row, row["record_digest"], head) != row["chain_hash"]:
            return "its hash does not follow from it and the row before it: one of them was changed"
        return "" if row["kind"] == ERASED or reader is None else difference(row, reader)

    def _note_erased(self, row: Mapping[str, Any]) -> None:
        self.found.erased += 1
        statement = str(row["summary"] or "").rpartition(" ")[2]
        if statement in self._erasures:
            self._erasures[statement].seen += 1
            self._erasures[statement].over.add(row)
        else:
            self._wrong(row["topic"], row["offset"], "its content is gone, and no statement says who erased it")

    def _erased(self, statement: str, erasure: "_Erasure") -> None:
        what = ""
        if erasure.done is None:  # interrupted: it has erased either all intended rows or none
            if not erasure.seen:
                return
            self.found.unfinished += 1
            if erasure.seen > erasure.intended:
                what = f"it meant to erase {erasure.intended} rows, and {erasure.seen} say that it erased them"
        elif erasure.seen > erasure.done:
            what = f"it erased {erasure.done} rows, and {erasure.seen} say that it erased them"
        elif erasure.seen < erasure.done - erasure.dropped:
            missing = erasure.done - erasure.dropped - erasure.seen
            what = f"{missing} of the rows that it erased are gone"
        if not what and erasure.over.hexdigest() not in erasure.stated:
            what = "the rows that say that it erased them are not those that it stated: others are in their place"
        if what:
            self._wrong(STATEMENTS, None, f"erasure {statement}: {what}")

    def _end(self, place: Place, head: Head, signed: Mapping[int, str]) -> None:
        written = self._written(place)
        if written is not None and written > head.offset:
            self._wrong(
                _name(place),
                head.offset,
                f"it ends here, and the table's log says that rows up to {written} were written: it was rolled back",
            )
        elif beyond := self._not_dropped(place, signed):
            if max(beyond) > head.offset:
                what = f"it ends here, and a checkpoint was signed at {max(beyond)}: it was rolled back"
                self._wrong(_name(place), head.offset, what)
            else:
                what = "a checkpoint was signed of it, and it is not there: rows were removed, and the chain recreated"
                self._wrong(_name(place), min(beyond), what)

    def _rows(self, place: Place) -> Iterator[dict[str, Any]]:
        """Yield the rows of a partition in order, in parts."""
        sink, topic, partition = place
        at = f'sink = {literal(sink)} AND "topic" = {literal(topic)} AND "partition" = {partition:d}'
        return in_order(self._query.iter_rows, "*", f"{at} AND {OF_KAFKA}")

    def _wrong(self, place: str, offset: int | None, what: str) -> bool:
        self.found.problems.append(Problem(place, offset, what))
        return True


def _name(place: Place) -> str:
    return f"{place[1]}[{place[2]}]"
