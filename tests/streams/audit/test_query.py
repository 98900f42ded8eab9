from datetime import datetime
from pathlib import Path

import pytest

from haltline.streams.audit.query import QueryFailed, literal, open_query, session_story
from haltline.streams.audit.reading import KafkaRecord
from haltline.streams.audit.table import DeltaAuditTable
from tests.streams.audit import records
from tests.streams.audit.records import NOW_MS, TOPICS, record
from tests.streams.audit.tables import READER


def write(table: Path, *kept: KafkaRecord) -> None:
    DeltaAuditTable(table).open().append([READER.row(each, NOW_MS) for each in kept], {"a": 0})


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that is only read."""
    table = tmp_path_factory.mktemp("one") / "audit"
    write(table, *records.one_of_each())
    return table


def test_a_session_by_any_name_is_found_and_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    names = ["it's", "' OR 1=1 --", '"; DROP TABLE audit', "\\' OR 1=1 --", "ünï\n\U0001f600"]
    events = [records.event(session_id=name).to_json() for name in names]
    write(tmp_path, *(record(TOPICS.actions, value, n, key=b"x") for n, value in enumerate(events)))
    assert [[row["session_id"] for row in session_story(tmp_path, name)] for name in names] == [[n] for n in names]
    with pytest.raises(ValueError, match="expected a time with its zone, got 2026-05-28 20:26:40"):
        literal(datetime(2026, 5, 28, 20, 26, 40))  # noqa: DTZ001  # that it has none is the point


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
