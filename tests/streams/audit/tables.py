"""Tables to test with, and writers of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
from deltalake import DeltaTable

from haltline.schemas.keys import load_public_key, make_keys
from haltline.streams.audit.chain import CHECKPOINT
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.query import open_query
from haltline.streams.audit.reading import Reader
from haltline.streams.audit.redacting import Redaction
from haltline.streams.audit.signing import Signer, load_signer
from haltline.streams.audit.table import AuditTable, DeltaAuditTable
from haltline.streams.audit.verify import Verification, Verifier
from haltline.streams.audit.writer import AuditWriter, Place
from tests.streams.audit.records import NOW_MS, TOPICS, event, record

FIRST, OTHER = Place(TOPICS.actions, 0), Place(TOPICS.actions, 1)
CONTROL = Place(TOPICS.control, 1)
DAY_MS = 86_400_000
OF_FIRST = f'"topic" = \'{TOPICS.actions}\' AND "partition" = 0'
AT_7 = f'{OF_FIRST} AND "offset" = 7'
READER = Reader(TOPICS, "audit")
VALUE = event().to_json()


def writer(table: AuditTable | Path, *places: Place, redact: bool = False, **more: Any) -> AuditWriter:
    """One that was assigned these partitions."""
    kept = DeltaAuditTable(table) if isinstance(table, Path) else table
    made = AuditWriter(kept, Reader(TOPICS, "audit", Redaction() if redact else None), "audit", **more)
    if places:
        made.assign(places)
    return made


def add(to: AuditWriter, place: Place, *offsets: int, value: bytes = VALUE, at_ms: int = NOW_MS) -> list[bool]:
    """Buffers a record at each offset; whether it was taken."""
    return [
        to.add(record(place.topic, value, offset, partition=place.partition, timestamp_ms=at_ms)) for offset in offsets
    ]


def proof_of(table: Path, *, key: Path | None = None, witness: Iterable[dict[str, object]] = ()) -> Verification:
    """What a verification found."""
    public = None if key is None else load_public_key(key)
    verifier = Verifier(table, topics=TOPICS, public_key=public, witness=list(witness))
    assert all(rows > 0 for _, rows in verifier.run())
    return verifier.found


class Audit:
    """A signed table in a folder. `filled` has 80 rows, which two sinks have written one after the other."""

    def __init__(self, folder: Path) -> None:
        self.uri = folder / "audit"
        self.key = folder / "key.pem"
        self.public = folder / "key.pem.pub"

    @classmethod
    def filled(cls, folder: Path) -> "Audit":
        audit = cls(folder)
        assert make_keys(audit.key) == audit.public
        for start in (0, 40):
            audit.write(start, 40)
        return audit

    @property
    def signer(self) -> Signer:
        return load_signer(self.key)

    def care(self, *, of: type[Caretaker] = Caretaker, **more: Any) -> Caretaker:
        fields: dict[str, Any] = {"by": "ada", "reason": "request 12", "signer": self.signer}
        return of(self.uri, **fields | more)

    def writer(self, *places: Place, sign_every: int = 1000) -> AuditWriter:
        return writer(self.uri, *places, signer=self.signer, sign_every=sign_every)

    def write(self, start: int, count: int, *, at_ms: int = NOW_MS) -> None:
        """Events of three sessions, to both partitions in turn."""
        sink = self.writer(FIRST, OTHER, sign_every=10)
        for n in range(start, start + count):
            value = event(event_id=f"e{n}", session_id=f"s{n % 3}").to_json()
            add(sink, (FIRST, OTHER)[n % 2], n // 2, value=value, at_ms=at_ms)
            if n % 20 == 19:
                sink.flush(at_ms)
        sink.flush(at_ms, closing=True)

    def table(self) -> DeltaTable:
        return DeltaTable(str(self.uri))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return open_query(self.uri).rows(sql)

    def verify(self, *, signed: bool = True, witness: Iterable[dict[str, object]] = ()) -> Verification:
        return proof_of(self.uri, key=self.public if signed else None, witness=witness)

    def checkpoints(self) -> list[dict[str, object]]:
        return [orjson.loads(row["raw"]) for row in self.rows(f"SELECT raw FROM audit WHERE kind = '{CHECKPOINT}'")]
