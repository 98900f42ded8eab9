"""Rows stay byte for byte what an earlier release made of the same records, whichever way they are made.

Each line of `golden_rows.jsonl` is a record and the cells of its row, some of records that were mutated. Of those that
cannot be read the text of the error is left out: it is that of a library.
"""

import base64
from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.streams.audit.memory import MemoryAuditTable
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.redacting import Redaction
from haltline.streams.audit.writer import AuditWriter, Place
from tests.streams.audit.records import NOW_MS, TOPICS

LINES = [orjson.loads(line) for line in Path(__file__).with_name("golden_rows.jsonl").read_bytes().splitlines()]
TEXTS_OF_LIBRARIES = ("decode_error", "summary")


def from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def record_of(line: dict[str, Any]) -> KafkaRecord:
    topic, partition, offset, time_ms, key, value, headers = line["record"]
    pairs = tuple((name, from_base64(text)) for name, text in headers)
    return KafkaRecord(topic, partition, offset, time_ms, from_base64(key), from_base64(value), pairs)


def cells_of(row: dict[str, Any]) -> dict[str, Any]:
    left_out = TEXTS_OF_LIBRARIES if row.get("decode_error") is not None else ()
    cells = {name: cell for name, cell in row.items() if cell is not None and name not in left_out}
    return {name: base64.b64encode(cell).decode() if isinstance(cell, bytes) else cell for name, cell in cells.items()}


@pytest.mark.parametrize("flush_every", [1, 7, len(LINES)])
def test_rows_are_what_they_were(flush_every: int) -> None:
    table = MemoryAuditTable()
    writer = AuditWriter(table, Reader(TOPICS, "audit", Redaction()), "audit")
    records = [record_of(line) for line in LINES]
    writer.assign({Place(record.topic, record.partition) for record in records})
    for number, record in enumerate(records, 1):
        writer.add(record)
        if number % flush_every == 0 or number == len(records):
            writer.flush(NOW_MS)
    made = {(row["topic"], row["partition"], row["offset"]): cells_of(row) for row in table.rows}
    assert made == {tuple(line["record"][:3]): line["row"] for line in LINES}
