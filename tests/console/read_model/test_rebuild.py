"""The read model rebuilt from the audit table, and then from the topics."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, RowMapping, select

from haltline.console.access.keys import Keys, Role, Who, new_key
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import reader_of
from haltline.console.read_model.projection import take_in
from haltline.console.read_model.rebuild import of_audit, take_from
from haltline.console.read_model.store import empty, open_store
from haltline.console.run import run
from haltline.console.settings import ConsoleSettings
from haltline.streams.audit.reading import KafkaRecord
from tests.console.databases import database
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night

KEPT = (
    tables.records, tables.sessions, tables.interventions, tables.tallies, tables.level_counts, tables.spent,
    tables.approvals, tables.control, tables.names,
)  # fmt: skip


@pytest.fixture(scope="module")
def log() -> LiveLog:
    return a_night()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_store(database(tmp_path))


def settings(folder: Path, table: Path) -> ConsoleSettings:
    return ConsoleSettings(
        bootstrap="127.0.0.1:1",
        keys=Keys.of([(new_key(), Who("ada", Role.ADMIN))]),
        database=database(folder),
        audit_table=str(table),
    )


def holds(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    with engine.connect() as connection:
        return {
            table.name: sorted((_fields(row) for row in connection.execute(select(table)).mappings()), key=str)
            for table in KEPT
        }


def _fields(row: RowMapping) -> dict[str, Any]:
    """Without the number of its arrival."""
    return {name: value for name, value in row.items() if name != "n"}


def of_topics(engine: Engine, log: LiveLog) -> dict[str, list[dict[str, Any]]]:
    """As the feeder does it."""
    empty(engine)
    reader = reader_of(TOPICS)
    for kept in log.records.values():
        rows = [reader.row(KafkaRecord(*record[:6], record.headers), record.timestamp) for record in kept]
        with engine.begin() as connection:
            take_in(connection, rows, TOPICS.prefix)
    return holds(engine)


def test_it_is_what_the_topics_would_have_made(log: LiveLog, engine: Engine, tmp_path: Path) -> None:
    table = log.audited(tmp_path / "audit")
    expected = of_topics(engine, log)
    assert expected["interventions"]
    empty(engine)
    reported: list[int] = []
    taken = take_from(of_audit(settings(tmp_path, table)), engine, on_progress=reported.append)
    assert taken == sum(map(len, log.records.values())) == reported[-1]
    assert holds(engine) == expected


def test_the_feeder_goes_on_behind_it(log: LiveLog, engine: Engine, tmp_path: Path) -> None:
    take_from(of_audit(settings(tmp_path, log.audited(tmp_path / "audit"))), engine, on_progress=lambda _: None)
    with engine.connect() as connection:
        after = {(topic, partition): n for topic, partition, n in connection.execute(select(tables.offsets))}
    assert after == {
        (topic.removeprefix(TOPICS.prefix), partition): len(kept)
        for (topic, partition), kept in log.records.items()
        if kept
    }


def test_without_a_table_nothing_is_emptied(
    log: LiveLog, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = of_topics(engine, log)
    assert run(settings(tmp_path, tmp_path / "none"), "127.0.0.1", 0, rebuild=True) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert holds(engine) == before
