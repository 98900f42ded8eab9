"""The read model in an engine of the caller's own."""

from sqlalchemy import StaticPool, create_engine, select

from haltline.console.read_model import tables
from haltline.console.read_model.projection import take_in
from haltline.console.read_model.store import prepare
from tests.console.topics import messages_of, rows
from tests.streams.engine.test_local_fleet import delete


def test_a_database_in_memory_on_one_connection_takes_in_records() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    prepare(engine)
    with engine.begin() as connection:
        take_in(connection, rows(messages_of([delete(0, "a")])), "haltline.")
    prepare(engine)
    with engine.connect() as connection:
        assert connection.execute(select(tables.sessions.c.session_id)).scalars().all() == ["a"]
