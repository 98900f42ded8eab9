"""The read model rebuilt from the audit table, and then from the topics."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from haltline.console.access.keys import Keys, Role, Who, new_key
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import reader_of
from haltline.console.read_model.rebuild import of_audit, take_from
from haltline.console.read_model.store import empty
from haltline.console.run import run
from haltline.console.settings import ConsoleSettings
from haltline.streams.audit.reading import KafkaRecord
from tests.console.databases import database
from tests.console.read_model.contents import contents, of_batches
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night


@pytest.fixture(scope="module")
def log() -> LiveLog:
    return a_night()


def settings(folder: Path, table: Path) -> ConsoleSettings:
    keys = Keys.of([(new_key(), Who("ada", Role.ADMIN))])
    return ConsoleSettings(bootstrap="127.0.0.1:1", keys=keys, database=database(folder), audit_table=str(table))


def of_topics(engine: Engine, log: LiveLog) -> dict[str, list[dict[str, Any]]]:
    """The content of a read model that is built like the feeder builds it."""
    reader = reader_of(TOPICS)
    batches = (
        [reader.row(KafkaRecord(*record[:6], tuple(record.headers)), record.timestamp) for record in kept]
        for kept in log.records.values()
    )
    return of_batches(engine, batches)


def test_it_is_what_the_topics_would_have_made_and_the_feeder_goes_on_behind_it(
    log: LiveLog, engine: Engine, tmp_path: Path
) -> None:
    table = log.audited(tmp_path / "audit")
    expected = of_topics(engine, log)
    assert expected["interventions"]
    empty(engine)
    reported: list[int] = []
    taken = take_from(of_audit(settings(tmp_path, table)), engine, on_progress=reported.append)
    assert taken == sum(map(len, log.records.values())) == reported[-1]
    assert contents(engine) == expected
    with engine.connect() as connection:
        after = {(topic, partition): n for topic, partition, n in connection.execute(select(tables.offsets))}
    ends = {(topic.removeprefix(TOPICS.prefix), number): len(kept) for (topic, number), kept in log.records.items()}
    assert after == {place: end for place, end in ends.items() if end}


def test_without_a_table_nothing_is_emptied(
    log: LiveLog, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = of_topics(engine, log)
    assert run(settings(tmp_path, tmp_path / "none"), "127.0.0.1", 0, rebuild=True) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert contents(engine) == before
