"""Tables outlive releases: one with fewer columns is gone on with, and one with more is left with them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from arro3.core import Array, DataType, Field, Schema, Table
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake

from haltline.streams.audit.columns import SCHEMA
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.query import open_query
from tests.streams.audit.records import NOW_MS, TOPICS, event
from tests.streams.audit.tables import FIRST, add, proof_of, writer

CHAIN = ("prev_offset", "record_digest", "chain_hash")
NEWER = "of_a_later_release"


def write(folder: Path, first: int, count: int, error: str | None = None) -> int | None:
    """Goes on in a table, behind what it holds; that is what is returned."""
    sink = writer(folder, redact=True)
    (behind,) = sink.assign([FIRST]).values()
    for offset in range(first, first + count):
        value = event(event_id=f"e{offset}", session_id=f"s{offset % 2}", error=error).to_json()
        assert add(sink, FIRST, offset, value=value) == [True]
    sink.flush(NOW_MS)
    return behind


def of_an_older_release(folder: Path, tmp_path: Path, without: Sequence[str]) -> None:
    """A table with ten records as a release wrote it that did not know these columns."""
    write(tmp_path / "now", 0, 10)
    known = ", ".join(f'"{name}"' for name in SCHEMA.names if name not in without)
    query = QueryBuilder().register("audit", DeltaTable(str(tmp_path / "now")))
    then = Table.from_batches(list(query.execute(f"SELECT {known} FROM audit")))
    written = [Transaction(f"audit-{TOPICS.actions}-0", 9)]
    write_deltalake(
        str(folder), then, partition_by=["event_date"], commit_properties=CommitProperties(app_transactions=written)
    )


@pytest.mark.parametrize(
    ("without", "proved"),
    [
        pytest.param(("redacted",), True, id="before the redaction"),
        pytest.param(("redacted", *CHAIN, "mission_id", "flag", "time_to_stop_ms"), False, id="long before"),
    ],
)
def test_a_table_of_an_older_release_is_asked_and_gone_on_with_and_proved_where_it_is_chained(
    tmp_path: Path, without: Sequence[str], *, proved: bool
) -> None:
    table = tmp_path / "then"
    of_an_older_release(table, tmp_path, without)
    count = "SELECT count(*) AS n, count(event_id) AS ids FROM audit"
    assert open_query(table).rows(count) == [{"n": 10, "ids": 10}]
    assert write(table, 10, 5, error="mail to ada@example.org") == 9
    assert open_query(table).rows(count) == [{"n": 15, "ids": 15}]
    assert set(SCHEMA.names) <= {field.name for field in DeltaTable(str(table)).schema().fields}
    assert open_query(table).rows("SELECT redacted, count(*) AS n FROM audit GROUP BY 1 ORDER BY 2") == [
        {"redacted": "email", "n": 5},
        {"redacted": None, "n": 10},
    ]
    found = proof_of(table)
    assert (found.ok, found.rows) == (proved, 15)
    assert proved or [(p.offset, p.what) for p in found.problems] == [(0, "a row without a hash: nothing proves it")]


def test_a_table_of_a_later_release_keeps_its_columns_and_is_proved(tmp_path: Path) -> None:
    write(tmp_path, 0, 10)
    schema = Schema([Field(NEWER, DataType.string(), nullable=True)])
    row = Table.from_arrays([Array(["x"], type=DataType.string())], schema=schema)
    write_deltalake(str(tmp_path), row, mode="append", schema_mode="merge")
    DeltaTable(str(tmp_path)).delete(f"{NEWER} = 'x'")
    DeltaTable(str(tmp_path)).update(updates={NEWER: "event_id"}, predicate='"offset" < 4')
    assert write(tmp_path, 10, 5) == 9
    kept = f'SELECT "offset", {NEWER} FROM audit WHERE {NEWER} IS NOT NULL ORDER BY 1'
    assert open_query(tmp_path).rows(kept) == [{"offset": n, NEWER: f"e{n}"} for n in range(4)]
    found = proof_of(tmp_path)
    assert (found.problems, found.rows) == ([], 15)
    assert Caretaker(tmp_path, by="ada", reason="request 12").erase(session_id="s0") == 8
    assert open_query(tmp_path).rows(kept) == [{"offset": n, NEWER: f"e{n}"} for n in (1, 3)]  # of the other session
    found = proof_of(tmp_path)
    assert (found.problems, found.erased) == ([], 8)
