"""Rows that are statements about the audit itself, not records of Kafka: signed if there is a key."""

from collections.abc import Mapping
from typing import Any, Final

from haltline.streams.audit.chain import CHECKPOINT, CHECKPOINTS, STATEMENT, Head, canonical
from haltline.streams.audit.columns import Row
from haltline.streams.audit.signing import Signer

STATEMENTS: Final = "audit/statements"
"""Their topic, which is not a valid name in Kafka."""

INTENDED: Final = "erasure.intended"
ERASURE: Final = "erasure"
RETENTION: Final = "retention"
"""The subjects of statements. An erasure has two, so that an interrupted one has stated its intention."""

_MS_PER_DAY: Final = 86_400_000


def checkpoint(signer: Signer, sink: str, place: tuple[str, int], head: Head, now_ms: int) -> Row:
    """Return the row that states the length and last hash of a partition's chain."""
    topic, partition = place
    signed = signer.signed(
        {
            "v": 1,
            "what": CHECKPOINT,
            "sink": sink,
            "topic": topic,
            "partition": partition,
            "offset": head.offset,
            "chain_hash": head.hash,
            "time_ms": now_ms,
        }
    )
    return checkpoint_row(signed)


def checkpoint_row(signed: Mapping[str, Any]) -> Row:
    """Return the row of a signed checkpoint. Raises KeyError if fields are missing."""
    topic, partition, offset = signed["topic"], signed["partition"], signed["offset"]
    return {
        **_row(signed["sink"], topic + CHECKPOINTS, signed["time_ms"], signed),
        "partition": partition,
        "offset": offset,
        "kind": CHECKPOINT,
        "summary": f"{topic}[{partition}] up to offset {offset} is signed by key {signed['key_id']}",
    }


def statement(
    signer: Signer | None, sink: str, what: Mapping[str, Any], *, by: str, reason: str, summary: str, now_ms: int
) -> Row:
    """Return the row that records an erasure or a retention: its scope, operator and reason."""
    content = {"v": 1, "sink": sink, "by": by, "reason": reason, "time_ms": now_ms, **what}
    if signer is not None:
        content = signer.signed(content)
    return statement_row(content, summary)


def statement_row(content: Mapping[str, Any], summary: str) -> Row:
    """Return the row of another statement. Raises KeyError if fields are missing."""
    return {
        **_row(content["sink"], STATEMENTS, content["time_ms"], content),
        "partition": 0,
        "offset": content["time_ms"],
        "kind": STATEMENT,
        "by": content["by"],
        "reason": content["reason"],
        "summary": summary,
    }


def _row(sink: str, topic: str, now_ms: int, content: Mapping[str, Any]) -> Row:
    return {
        "sink": sink,
        "topic": topic,
        "timestamp": now_ms,
        "timestamp_ms": now_ms,
        "event_date": now_ms // _MS_PER_DAY,
        "ingested_at": now_ms,
        "raw": canonical(content),
    }
