"""The hash chain of each partition: what makes a row that was changed, removed, added or moved show. Pure.

A row's `record_digest` is the SHA-256 of the canonical JSON of what came from Kafka: topic, partition, offset, time,
key, headers and the SHA-256 of the value. Its `chain_hash` is that of the record's digest, the place, and the hash
and offset of the row before it in the partition. So whoever has one hash that is known to be right can prove every row
before it, whatever files the rows are in; and a row whose content was deleted still proves its neighbours.

Canonical JSON: keys sorted, no spaces, UTF-8, null for what is not there.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

LOST: Final = "records.lost"
CHECKPOINT: Final = "chain.checkpoint"
STATEMENT: Final = "audit.statement"
ERASED: Final = "erased"

CHECKPOINTS: Final = "/checkpoints"
"""Stands behind a topic's name in rows that are signed statements of its chain, and no records of Kafka."""


KEPT_OF_ERASED: Final = frozenset(
    ("sink", "topic", "partition", "offset", "timestamp", "timestamp_ms", "event_date", "ingested_at", "prev_offset",
     "record_digest", "chain_hash", "kind", "summary")
)  # fmt: skip
"""Of an erased row: its place in its chain, and what was done to it."""

_IN_DIGEST: Final = ("sink", "topic", "partition", "offset", "record_digest")
_DIGESTED: Final = ("offset", "timestamp_ms", "key", "key_bytes", "headers", "raw")
"""What came from Kafka, but for its topic and partition."""
_Place = tuple[str, str, str]
_LOST_UNTIL: Final = re.compile(r"offsets \d+ to (\d+) were deleted")


class Head(NamedTuple):
    """Where a partition's chain ends: the hash of its last row, and the last offset that it stands for."""

    offset: int
    hash: str


class Digest:
    """SHA-256 over the places and record digests of some rows, a line of canonical JSON for each."""

    ORDER: Final = 'sink, "topic", "partition", "offset"'
    """In which the rows are to be added, as SQL."""

    def __init__(self) -> None:
        self._over = sha256()

    def add(self, row: Mapping[str, Any]) -> None:
        """One more row: what `ORDER` names of it, and its `record_digest`."""
        self._over.update(canonical({name: row[name] for name in _IN_DIGEST}) + b"\n")

    def hexdigest(self) -> str:
        """Of the rows so far, as 64 hex digits."""
        return self._over.hexdigest()


def canonical(value: Mapping[str, Any]) -> bytes:
    """The one JSON text of a mapping."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def record_digest(row: Mapping[str, Any]) -> str:
    """The digest of what came from Kafka, as 64 hex digits."""
    lost = f'"lost":{_json(row["summary"])},' if row.get("kind") == LOST else ""  # it says up to where
    columns = {name: [row.get(name)] for name in _DIGESTED}
    return _record_digests(_place(row["sink"], row["topic"], row["partition"]), columns, lost)[0]


def chain_hash(row: Mapping[str, Any], digest: str, prev: Head | None) -> str:
    """The hash of a row behind another one, as 64 hex digits; of the first row of a chain, behind none."""
    place = _place(row["sink"], row["topic"], row["partition"])
    return _chain_hashes(place, [row["offset"]], [_json(digest)], prev)[0]


def _record_digests(place: _Place, columns: Mapping[str, Sequence[Any]], lost: str = "") -> list[str]:
    """Of rows of one partition, by their columns `_DIGESTED`."""
    partition, sink, topic = place
    keys = [
        f'"{key.hex()}"' if key is not None else "null" if text is None else f'"{text.encode().hex()}"'
        for text, key in zip(columns["key"], columns["key_bytes"], strict=True)
    ]
    values = ["null" if raw is None else f'"{sha256(raw).hexdigest()}"' for raw in columns["raw"]]
    records = zip(columns["headers"], keys, columns["offset"], columns["timestamp_ms"], values, strict=True)
    # Canonical JSON, written down: it is made for every row, and so it takes half the time.
    behind, end = f',{partition},{sink},"timestamp_ms":', f',{topic},"value":'
    return [
        sha256(
            f'{{"headers":{"null" if headers is None else _json(headers)},"key":{key},{lost}"offset":{offset}'
            f"{behind}{'null' if time_ms is None else time_ms}{end}{value}}}".encode()
        ).hexdigest()
        for headers, key, offset, time_ms, value in records
    ]


def _chain_hashes(place: _Place, offsets: Sequence[int], digests: Sequence[str], prev: Head | None) -> list[str]:
    """Of rows of one partition, each behind the one before it; the digests are JSON."""
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
    if text is not None and text.isalnum():  # as digests are: nothing of it is escaped
        return f'"{text}"'
    return orjson.dumps(text).decode()


@lru_cache(maxsize=1024)
def _place(sink: str, topic: str, partition: int) -> _Place:
    """`"partition":0`, `"sink":"audit"` and `"topic":"haltline.actions"`."""
    return f'"partition":{partition}', f'"sink":{_json(sink)}', f'"topic":{_json(topic)}'


def head_before(row: Mapping[str, Any], prev: Head, kind: str | None) -> Head:
    """The end of the chain on which a row stands, of the row before it: that one's place, hash and kind.

    A row of lost records has the first lost offset. Up to where it stands is said by the row behind it.
    """
    last = row["prev_offset"]
    return Head(last, prev.hash) if kind == LOST and last is not None and last >= prev.offset else prev


def lost_until(row: Mapping[str, Any]) -> int:
    """The last offset that a row stands for: its own, or the last of those that were lost.

    Of a row of lost records that is in its summary, which is a part of its digest.
    """
    match = _LOST_UNTIL.search(row["summary"] or "") if row["kind"] == LOST else None
    return int(row["offset"] if match is None else match[1])


def chained(row: dict[str, Any], prev: Head | None, until: int | None = None) -> Head:
    """Adds a row to the chain: fills in its columns, and returns the chain's new end.

    `until` is the last offset that the row stands for, where it stands for several.
    """
    digest = record_digest(row)
    row["record_digest"] = digest
    row["prev_offset"] = None if prev is None else prev.offset
    row["chain_hash"] = hashed = chain_hash(row, digest, prev)
    return Head(row["offset"] if until is None else until, hashed)


def chained_columns(columns: dict[str, Sequence[Any]], prev: Head | None) -> Head | None:
    """As `chained`, all at once: adds the rows of one partition, none of them of lost records, by their columns."""
    offsets = columns["offset"]
    if not offsets:
        return prev
    place = _place(columns["sink"][0], columns["topic"][0], columns["partition"][0])
    digests = _record_digests(place, columns)
    hashes = _chain_hashes(place, offsets, [f'"{digest}"' for digest in digests], prev)
    before = [None if prev is None else prev.offset, *offsets[:-1]]
    columns |= {"record_digest": digests, "prev_offset": before, "chain_hash": hashes}
    return Head(offsets[-1], hashes[-1])
