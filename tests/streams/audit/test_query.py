from datetime import UTC, datetime
from pathlib import Path

import pytest

from haltline.streams.audit.query import QueryFailed, conditions, literal, open_query, session_story
from haltline.streams.audit.reading import KafkaRecord
from haltline.streams.audit.table import DeltaAuditTable
from tests.streams.audit import records
from tests.streams.audit.records import NOW_MS, REASON, TOPICS, record
from tests.streams.audit.tables import READER


def write(table: Path, *kept: KafkaRecord) -> None:
    DeltaAuditTable(table).open().append([READER.row(each, NOW_MS) for each in kept], {"a": 0})


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that is only read."""
    table = tmp_path_factory.mktemp("one") / "audit"
    write(table, *records.one_of_each())
    return table


def test_the_story_of_a_session_is_in_the_order_in_which_it_happened(tmp_path: Path) -> None:
    write(
        tmp_path,
        record(TOPICS.interventions, records.decision().to_json(), 0, timestamp_ms=NOW_MS + 12_000),
        record(TOPICS.control, records.control().to_json(), 0, timestamp_ms=NOW_MS + 12_000, key=b"session:42"),
        record(TOPICS.detections, records.detection().to_json(), 0, timestamp_ms=NOW_MS + 12_000),
        record(TOPICS.actions, records.event().to_json(), 1, timestamp_ms=NOW_MS + 12_000),
        record(TOPICS.actions, b"broken", 2, timestamp_ms=NOW_MS + 13_000),
        record(TOPICS.actions, records.event().to_json(), 0),
        record(TOPICS.actions, records.event(session_id="43").to_json(), 5, key=b"43"),
        record(TOPICS.commands, records.command().to_json(), 0, timestamp_ms=NOW_MS + 60_000),
    )
    assert [row["summary"] for row in session_story(tmp_path, "42")] == [
        "proposed delete_asset asset_id=fact_sales",
        "proposed delete_asset asset_id=fact_sales",
        "loop_suspected (medium, destructive_repeat): second delete of asset_id=fact_sales",
        f"session_killed: {REASON}",
        f"session_killed by haltline: {REASON}",
        "unreadable: not_json: Invalid JSON: expected value at line 1 column 1",
        "session_reset by alice: the table was restored",
    ]


def test_rows_are_found_by_what_is_given(tmp_path: Path) -> None:
    write(
        tmp_path,
        record(TOPICS.actions, records.event(session_id="a", agent_id="x").to_json(), 0),
        record(TOPICS.actions, records.event(session_id="a", agent_id="y").to_json(), 1, timestamp_ms=NOW_MS + 5000),
    )
    later = datetime.fromtimestamp(NOW_MS / 1000 + 5, UTC)
    for offsets, asked in (
        ([0, 1], {"session_id": "a"}), ([1], {"agent_id": "y"}), ([1], {"since": later}), ([0], {"until": later}),
        ([], {"session_id": "b"}),
    ):  # fmt: skip
        sql = f'SELECT "offset" FROM audit WHERE {" AND ".join(conditions(**asked))} ORDER BY 1'
        assert [row["offset"] for row in open_query(tmp_path).rows(sql)] == offsets, asked


def test_a_session_by_any_name_is_found_and_no_other(tmp_path: Path) -> None:
    names = ["it's", "' OR 1=1 --", '"; DROP TABLE audit', "\\' OR 1=1 --", "ünï\n\U0001f600"]
    events = [records.event(session_id=name).to_json() for name in names]
    write(tmp_path, *(record(TOPICS.actions, value, n, key=b"x") for n, value in enumerate(events)))
    assert [[row["session_id"] for row in session_story(tmp_path, name)] for name in names] == [[n] for n in names]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY audit TO '{folder}/stolen.parquet'",
        "-- SELECT\nCOPY audit TO '{folder}/stolen.parquet'",
        "/* SELECT */ EXPLAIN ANALYZE COPY audit TO '{folder}/stolen.parquet'",
        "CREATE EXTERNAL TABLE stolen STORED AS CSV LOCATION '/etc/hosts'",
        "SELECT 1; COPY audit TO '{folder}/stolen.parquet'",
        "DROP TABLE audit",
        "",
    ],
)
def test_a_question_can_only_read_the_table(one_of_each: Path, tmp_path: Path, sql: str) -> None:
    with pytest.raises(QueryFailed):
        open_query(one_of_each).rows(sql.format(folder=tmp_path))
    assert not (tmp_path / "stolen.parquet").exists()


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(QueryFailed, match=f"audit table {tmp_path}: expected a Delta table, got none there"):
        open_query(tmp_path).rows("SELECT 1")


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a time with its zone, got 2026-05-28 20:26:40"):
        literal(datetime(2026, 5, 28, 20, 26, 40))  # noqa: DTZ001  # that it has none is the point
