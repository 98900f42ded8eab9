import base64
import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.audit.columns import COLUMNS, to_arrow
from haltline.streams.audit.memory import MemoryAuditTable
from haltline.streams.audit.reading import KafkaRecord
from haltline.streams.audit.writer import Place
from tests.cases import cases
from tests.streams.audit.records import NOW_MS, TODAY, TOPICS, event, record
from tests.streams.audit.tables import READER, writer

MS_PER_DAY = 86_400_000


def test_key_and_headers_that_are_not_text_are_kept_whole() -> None:
    headers = (("a", b"text"), ("a", b"\xff"), ("n", None))
    read = READER.row(record(TOPICS.actions, b"x", key=b"a\xff", headers=headers), NOW_MS)
    assert (read["key"], read["key_bytes"]) == ("a\\xff", b"a\xff")
    assert orjson.loads(read["headers"]) == [["a", "text"], ["a", None, "/w=="], ["n", None]]


@pytest.mark.parametrize(
    ("timestamp_ms", "shown_ms", "day"),
    [(NOW_MS - 40 * MS_PER_DAY, NOW_MS - 40 * MS_PER_DAY, TODAY - 40), (None, None, TODAY), (-1, None, TODAY),
     (0, 0, TODAY), (NOW_MS + 2 * MS_PER_DAY, NOW_MS + 2 * MS_PER_DAY, TODAY), (2**62, None, TODAY)],
    ids=["weeks ago", "none", "before 1970", "a clock that was never set", "the day after tomorrow", "no year"],
)  # fmt: skip
def test_a_wild_timestamp_is_kept_and_makes_no_folder(timestamp_ms: int | None, shown_ms: int | None, day: int) -> None:
    row = READER.row(record(TOPICS.actions, event().to_json(), timestamp_ms=timestamp_ms), NOW_MS)
    assert (row["timestamp_ms"], row["timestamp"], row["event_date"]) == (timestamp_ms, shown_ms, day)


@given(
    topic=st.sampled_from([*TOPICS.all, "elsewhere"]),
    value=st.none()
    | st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([c.name for c in COLUMNS]), inner),
        max_leaves=20,
    ).map(lambda fields: orjson.dumps(fields, option=orjson.OPT_PASSTHROUGH_SUBCLASS) if _fits(fields) else b"{}"),
    key=st.none() | st.binary(max_size=20),
    timestamp_ms=st.none() | st.integers(-(2**63), 2**63 - 1),
    headers=st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=8), st.none() | st.binary(max_size=8))),
)
def test_whatever_comes_makes_a_row_with_its_bytes_whole(
    topic: str,
    value: bytes | None,
    key: bytes | None,
    timestamp_ms: int | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    actual = KafkaRecord(topic, 0, 5, timestamp_ms, key, value, tuple(headers))
    table = to_arrow([READER.row(actual, NOW_MS)])
    assert [table[name][0].as_py() for name in ("raw", "offset", "timestamp_ms")] == [value, 5, timestamp_ms]


def _fits(fields: object) -> bool:
    try:
        orjson.dumps(fields)
    except TypeError:  # an integer beyond 64 bits
        return False
    return True


def cells(name: str, *values: object) -> list[object]:
    column = to_arrow([{name: value} for value in values])[name]
    return [column[index].as_py() for index in range(len(values))]


@cases(
    "name, values, expected",
    {
        "a number beyond 64 bits": ("offset", (1, 2**63, -(2**63)), [1, None, -(2**63)]),
        "half a surrogate pair": ("summary", ("a", "\ud800", None), ["a", None, None]),
        "a number beyond a double": ("cost_usd", (1, 10**400, 0.5), [1.0, None, 0.5]),
        "bytes and none and no bytes": ("raw", (b"\x00\xff", b"", None), [b"\x00\xff", b"", None]),
        "a list with a bad text": ("targets", (["a", "b"], ["\ud800"], [], None), [["a", "b"], [], [], []]),
        "days": ("event_date", (20_000, None), [datetime.date(2024, 10, 4), None]),
        "milliseconds": (
            "timestamp",
            (1_780_000_000_001, None),
            [datetime.datetime(2026, 5, 28, 20, 26, 40, 1000, tzinfo=datetime.UTC), None],
        ),
    },
)
def test_a_cell_that_does_not_fit_is_null_and_the_others_stay(
    name: str, values: tuple[object, ...], expected: list[object]
) -> None:
    assert cells(name, *values) == expected


# Rows stay byte for byte what an earlier release made of the same records, whichever way they are made. Each line is a
# record and the cells of its row, some of records that were mutated. Of those that cannot be read the text of the error
# is left out: it is that of a library.
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
    records = [record_of(line) for line in LINES]
    sink = writer(table, *{Place(one.topic, one.partition) for one in records}, redact=True)
    for number, one in enumerate(records, 1):
        sink.add(one)
        if number % flush_every == 0 or number == len(records):
            sink.flush(NOW_MS)
    made = {(row["topic"], row["partition"], row["offset"]): cells_of(row) for row in table.rows}
    assert made == {tuple(line["record"][:3]): line["row"] for line in LINES}
