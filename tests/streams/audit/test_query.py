from datetime import UTC, datetime
from pathlib import Path

import pytest

from haltline.streams.audit.query import QueryFailed, audit_rows, literal, open_query, session_story
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.table import DeltaAuditTable
from tests.streams.audit import records
from tests.streams.audit.records import NOW_MS, REASON, TOPICS, record

READER = Reader(TOPICS, "audit")


def write(table: Path, *kept: KafkaRecord) -> None:
    DeltaAuditTable(table).open().append([READER.row(each, NOW_MS) for each in kept], {"a": 0})


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
        record(TOPICS.commands, records.command(id="a").to_json(), 2, timestamp_ms=NOW_MS + 9000),
    )
    later = datetime.fromtimestamp(NOW_MS / 1000 + 5, UTC)
    found = {
        "session": audit_rows(tmp_path, session_id="a"),
        "agent": audit_rows(tmp_path, agent_id="y"),
        "topic": audit_rows(tmp_path, topic=TOPICS.commands),
        "kind": audit_rows(tmp_path, session_id="a", kind="action.proposed"),
        "since": audit_rows(tmp_path, since=later),
        "until": audit_rows(tmp_path, until=later),
        "where": audit_rows(tmp_path, where="\"agent_id\" = 'x' OR \"by\" = 'alice'", session_id="a"),
        "limit": audit_rows(tmp_path, limit=2),
        "none": audit_rows(tmp_path, session_id="b"),
    }
    assert {name: [row["offset"] for row in rows] for name, rows in found.items()} == {
        "session": [0, 1, 2],
        "agent": [1],
        "topic": [2],
        "kind": [0, 1],
        "since": [1, 2],
        "until": [0],
        "where": [0, 2],
        "limit": [0, 1],
        "none": [],
    }


@pytest.mark.parametrize("name", ["it's", "' OR 1=1 --", '"; DROP TABLE audit', "\\' OR 1=1 --", "ünï\n\U0001f600"])
def test_a_session_by_any_name_is_found_and_no_other(tmp_path: Path, name: str) -> None:
    write(
        tmp_path,
        record(TOPICS.actions, records.event(session_id=name).to_json(), 0, key=name.encode()),
        record(TOPICS.actions, records.event().to_json(), 1),
    )
    assert [row["session_id"] for row in session_story(tmp_path, name)] == [name]


def test_values_come_as_python_has_them(tmp_path: Path) -> None:
    write(tmp_path, record(TOPICS.actions, records.event().to_json(), 7))
    (row,) = open_query(tmp_path).rows('SELECT raw, timestamp, targets, "offset", flag, cost_usd FROM audit')
    assert row == {
        "raw": records.event().to_json(),
        "timestamp": datetime(2026, 5, 28, 20, 26, 40, tzinfo=UTC),
        "targets": ["asset_id=fact_sales"],
        "offset": 7,
        "flag": None,
        "cost_usd": None,
    }


def test_targets_can_be_asked_for(tmp_path: Path) -> None:
    write(tmp_path, *records.one_of_each())
    sql = "SELECT DISTINCT kind FROM audit WHERE array_has(targets, 'asset_id=fact_sales') ORDER BY 1"
    assert [row["kind"] for row in open_query(tmp_path).rows(sql)] == ["action.proposed", "destructive", "detection"]


def test_a_question_that_does_not_hold_is_answered_with_what_is_wrong(tmp_path: Path) -> None:
    write(tmp_path, record(TOPICS.actions, b"{}"))
    with pytest.raises(QueryFailed, match="no_such_column"):
        open_query(tmp_path).rows("SELECT no_such_column FROM audit")
    with pytest.raises(QueryFailed, match="SELEKT"):
        open_query(tmp_path).rows("SELEKT 1")


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
def test_a_question_can_only_read_the_table(tmp_path: Path, sql: str) -> None:
    write(tmp_path, record(TOPICS.actions, b"{}"))
    with pytest.raises(QueryFailed):
        open_query(tmp_path).rows(sql.format(folder=tmp_path))
    assert not (tmp_path / "stolen.parquet").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "select 1 AS n",
        "  -- one\n/* two */ SELECT 1 AS n",
        "WITH one AS (SELECT 1 AS n) SELECT n FROM one",
        "(SELECT 1 AS n)",
    ],
)
def test_a_question_may_begin_as_sql_does(tmp_path: Path, sql: str) -> None:
    write(tmp_path, record(TOPICS.actions, b"{}"))
    assert open_query(tmp_path).rows(sql) == [{"n": 1}]


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(QueryFailed, match=f"audit table {tmp_path}: expected a Delta table, got none there"):
        open_query(tmp_path).rows("SELECT 1")


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a time with its zone, got 2026-05-28 20:26:40"):
        literal(datetime(2026, 5, 28, 20, 26, 40))  # noqa: DTZ001  # that it has none is the point
