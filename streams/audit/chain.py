"""The hash chain of each partition, which reveals changed, removed, added and moved rows. Pure.

A row's `record_digest` is the SHA-256 of the canonical JSON of what came from Kafka: topic, partition, offset, time,
key, headers and the SHA-256 of the value. Its `chain_hash` is the SHA-256 of the record's digest, its position, and the
hash and offset of the previous row in the partition. So one hash that is known to be right proves every earlier row,
whatever files the rows are in; and a row whose content was deleted still proves its neighbours.

Canonical JSON: keys sorted, no spaces, UTF-8, null for absent values.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from haltline.schemas import expressions as re

LOST: Final = "records.lost"
CHECKPOINT: Final = "chain.checkpoint"
STATEMENT: Final = "audit.statement"
ERASED: Final = "erased"

CHECKPOINTS: Final = "/checkpoints"
"""The suffix of a topic's name in rows that are signed statements of its chain, and not records of Kafka."""


OF_KAFKA: Final = f"(kind IS NULL OR kind NOT IN ('{CHECKPOINT}', '{STATEMENT}'))"
"""The SQL condition for rows that are records of Kafka."""

KEPT_OF_ERASED: Final = frozenset(
    ("sink", "topic", "partition", "offset", "timestamp", "timestamp_ms", "event_date", "ingested_at", "prev_offset",
     "record_digest", "chain_hash", "kind", "summary")
)  # fmt: skip
"""Columns that an erased row keeps: its position in its chain, and what was done to it."""

_IN_DIGEST: Final = ("sink", "topic", "partition", "offset", "record_digest")
_DIGESTED: Final = ("offset", "timestamp_ms", "key", "key_bytes", "headers", "raw")
"""The columns that came from Kafka, except for topic and partition."""
_Place = tuple[str, str, str]
_LOST_UNTIL: Final = re.compile(r"offsets \d+ to (\d+) were deleted")


class Head(NamedTuple):
    """The end of a partition's chain: the hash of its last row, and the last offset that the row covers."""

    offset: int
    hash: str


class Digest:
    """The SHA-256 over the positions and record digests of rows: one line of canonical JSON for each."""

    ORDER: Final = 'sink, "topic", "partition", "offset"'
    """The order in which rows have to be added, as SQL."""

    def __init__(self) -> None:
        self._over = sha256()

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row: the columns of `ORDER`, and its `record_digest`."""
        self._over.update(canonical({name: row[name] for name in _IN_DIGEST}) + b"\n")

    def hexdigest(self) -> str:
        """Return the digest of the rows so far, as 64 hex digits."""
        return self._over.hexdigest()


def canonical(value: Mapping[str, Any]) -> bytes:
    """Return the canonical JSON of a mapping."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def record_digest(row: Mapping[str, Any]) -> str:
    """Return the digest of what came from Kafka, as 64 hex digits."""
    lost = f'"lost":{_json(row["summary"])},' if row.get("kind") == LOST else ""  # it contains the last lost offset
    columns = {name: [row.get(name)] for name in _DIGESTED}
    return _record_digests(_place(row["sink"], row["topic"], row["partition"]), columns, lost)[0]


def chain_hash(row: Mapping[str, Any], digest: str, prev: Head | None) -> str:
    """Return the chain hash of a row, as 64 hex digits; `prev` is the end of the chain, None for its first row."""
    place = _place(row["sink"], row["topic"], row["partition"])
    return _chain_hashes(place, [row["offset"]], [_json(digest)], prev)[0]


def _record_digests(place: _Place, columns: Mapping[str, Sequence[Any]], lost: str = "") -> list[str]:
    """Return the digests of rows of one partition, given by their columns `_DIGESTED`."""
    partition, sink, topic = place
    keys = [
        f'"{key.hex()}"' if key is not None else "null" if text is None else f'"{text.encode().hex()}"'
        for text, key in zip(columns["key"], columns["key_bytes"], strict=True)
    ]
    values = ["null" if raw is None else f'"{sha256(raw).hexdigest()}"' for raw in columns["raw"]]
    records = zip(columns["headers"], keys, columns["offset"], columns["timestamp_ms"], values, strict=True)
    # Canonical JSON is formatted here, for every row, as that is faster.
    behind, end = f',{partition},{sink},"timestamp_ms":', f',{topic},"value":'
    return [
        sha256(
            f'{{"headers":{"null" if headers is None else _json(headers)},"key":{key},{lost}"offset":{offset}'
            f"{behind}{'null' if time_ms is None else time_ms}{end}{value}}}".encode()
        ).hexdigest()
        for headers, key, offset, time_ms, value in records
    ]


def _chain_hashes(place: _Place, offsets: Sequence[int], digests: Sequence[str], prev: Head | None) -> list[str]:
    """Return the hashes of consecutive rows of one partition; the digests are JSON."""
    partition, sink, topic = place
    last: int | str
    last, end = ("null", "null") if prev is None else (prev.offset, _json(prev.hash))
    behind, tail = f',{partition},"prev":', f",{sink},{topic}}}"
    hashes = []
    for offset, digest in zip(offsets, digests, strict=True):
        content = f'{{"offset":{offset}{behind}{end},"prev_offset":{last},"record":{digest}{tail}'
        hashed = sha256(content.encode()).hexdigest()
        hashes.append(hashed)
        last, end = offset, f'"{hashed}"'
    return hashes


def _json(text: str | None) -> str:
    if text is not None and text.isalnum():  # like digests: nothing in it is escaped
        return f'"{text}"'
    return orjson.dumps(text).decode()


@lru_cache(maxsize=1024)
def _place(sink: str, topic: str, partition: int) -> _Place:
    """Return the position as JSON: `"partition":0`, `"sink":"audit"` and `"topic":"haltline.actions"`."""
    return f'"partition":{partition}', f'"sink":{_json(sink)}', f'"topic":{_json(topic)}'


def lost_until(row: Mapping[str, Any]) -> int:
    """Return the last offset that a row covers: its own, or the last of the lost ones.

    A row of lost records has that in its summary, which is a part of its digest.
    """
    match = _LOST_UNTIL.search(row["summary"] or "") if row["kind"] == LOST else None
    return int(row["offset"] if match is None else match[1])


def chained(row: dict[str, Any], prev: Head | None, until: int | None = None) -> Head:
    """Add a row to the chain: fill in its columns, and return the chain's new end.

    `until` is the last offset that the row covers, if it covers several.
    """
    digest = record_digest(row)
    row["record_digest"] = digest
    row["prev_offset"] = None if prev is None else prev.offset
    row["chain_hash"] = hashed = chain_hash(row, digest, prev)
    return Head(row["offset"] if until is None else until, hashed)


def chained_columns(columns: dict[str, Sequence[Any]], prev: Head | None) -> Head | None:
    """Add rows of one partition to the chain at once, given by columns, like `chained`; none of lost records."""
    offsets = columns["offset"]
    if not offsets:
        return prev
    place = _place(columns["sink"][0], columns["topic"][0], columns["partition"][0])
    digests = _record_digests(place, columns)
    hashes = _chain_hashes(place, offsets, [f'"{digest}"' for digest in digests], prev)
    before = [None if prev is None else prev.offset, *offsets[:-1]]
    columns |= {"record_digest": digests, "prev_offset": before, "chain_hash": hashes}
    return Head(offsets[-1], hashes[-1])
