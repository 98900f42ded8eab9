from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, select, update

from haltline.console.read_model import tables
from haltline.console.read_model.store import open_store
from haltline.schemas.topics import Topics
from haltline.streams.audit.reading import KafkaRecord, Reader
from tests.console.databases import database
from tests.console.read_model.contents import of_batches
from tests.console.topics import messages_of, rows
from tests.streams.engine.test_local_fleet import spends


def test_costs_are_added_up_and_what_cannot_be_read_is_in_the_story(engine: Engine) -> None:
    made = rows(messages_of([spends(0, "a", 0.25), spends(1, "a", 0.5)]))
    broken = KafkaRecord("haltline.actions", 0, 99, 1_750_000_000_000, b"a", b"{no")
    made.append(Reader(Topics(), "console").row(broken, 0))
    model_of = of_batches(engine, [made])
    assert [row["cost_usd"] for row in model_of["sessions"]] == [0.75]
    assert [row["kind"] for row in model_of["records"] if row["offset"] == 99] == ["unreadable"]


def test_a_database_of_another_version_is_recreated_and_one_in_memory_refused(tmp_path: Path) -> None:
    url = database(tmp_path)
    with open_store(url).begin() as connection:
        connection.execute(insert(tables.offsets).values(topic="actions", partition=0, next=7))
    with open_store(url).begin() as connection:
        assert connection.execute(select(tables.offsets.c.next)).scalars().all() == [7]
        connection.execute(update(tables.versions).values(version=tables.SCHEMA_VERSION + 1))
    with open_store(url).connect() as connection:
        assert connection.execute(select(tables.offsets)).all() == []
    with pytest.raises(ValueError, match="expected a file, as several threads use it, got sqlite://"):
        open_store("sqlite://")
