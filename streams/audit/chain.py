"""The hash chain of each partition: what makes a row that was changed, removed, added or moved show. Pure.

A row's `record_digest` is the SHA-256 of the canonical JSON of what came from Kafka: topic, partition, offset, time,
key, headers and the SHA-256 of the value. Its `chain_hash` is that of the record's digest, the place, and the hash
and offset of the row before it in the partition. So whoever has one hash that is known to be right can prove every row
before it, whatever files the rows are in; and a row whose content was deleted still proves its neighbours.

Canonical JSON: keys sorted, no spaces, UTF-8, null for what is not there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

LOST: Final = "records.lost"
CHECKPOINT: Final = "chain.checkpoint"
STATEMENT: Final = "audit.statement"
ERASED: Final = "erased"

CHECKPOINTS: Final = "/checkpoints"
"""Stands behind a topic's name in rows that are signed statements of its chain, and no records of Kafka."""


@dataclass(frozen=True)
class Head:
    """Where a partition's chain ends: the hash of its last row, and the last offset that it stands for."""

    offset: int
    hash: str


def canonical(value: Mapping[str, Any]) -> bytes:
    """The one JSON text of a mapping."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def record_digest(row: Mapping[str, Any]) -> str:
    """The digest of what came from Kafka, as 64 hex digits."""
    key, raw = row.get("key_bytes"), row.get("raw")
    if key is None and row.get("key") is not None:
        key = row["key"].encode()
    said = {
        "headers": row.get("headers"),
        "key": None if key is None else key.hex(),
        "offset": row["offset"],
        "partition": row["partition"],
        "sink": row["sink"],
        "timestamp_ms": row.get("timestamp_ms"),
        "topic": row["topic"],
        "value": None if raw is None else sha256(raw).hexdigest(),
    }
    if row.get("kind") == LOST:
        said["lost"] = row["summary"]  # it says up to where
    return sha256(canonical(said)).hexdigest()


def chain_hash(row: Mapping[str, Any], digest: str, prev: Head | None) -> str:
    """The hash of a row behind another one, as 64 hex digits; of the first row of a chain, behind none."""
    said = {
        "offset": row["offset"],
        "partition": row["partition"],
        "prev": None if prev is None else prev.hash,
        "prev_offset": None if prev is None else prev.offset,
        "record": digest,
        "sink": row["sink"],
        "topic": row["topic"],
    }
    return sha256(canonical(said)).hexdigest()


def chained(row: dict[str, Any], prev: Head | None, until: int | None = None) -> Head:
    """Adds a row to the chain: fills in its columns, and returns the chain's new end.

    `until` is the last offset that the row stands for, where it stands for several.
    """
    digest = record_digest(row)
    row["record_digest"] = digest
    row["prev_offset"] = None if prev is None else prev.offset
    row["chain_hash"] = hashed = chain_hash(row, digest, prev)
    return Head(row["offset"] if until is None else until, hashed)
