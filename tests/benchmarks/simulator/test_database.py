"""The database of the simulated console."""

from benchmarks.simulator.database import far_away
from benchmarks.simulator.fleet import open_read_model
from haltline.console.read_model import tables


def test_something_may_happen_before_each_transaction_and_after_it() -> None:
    inside: list[bool] = []
    engine = open_read_model("console")

    def around() -> None:
        with engine.connect() as connection:
            found = connection.exec_driver_sql(f"SELECT count(*) FROM {tables.topic_ids.name}")
            inside.append(found.scalar_one() == 1)

    with far_away(engine, around).begin() as connection:
        connection.execute(tables.topic_ids.insert(), {"topic": "actions", "id": "1"})
    assert inside == [False, True]


def test_what_it_does_not_change_is_that_of_the_engine() -> None:
    engine = open_read_model("console")
    assert far_away(engine, lambda: None).dialect is engine.dialect
