"""The sink step by step: what happens between a poll, a flush and a rebalance, in every order that matters."""

from haltline.streams.audit.memory import MemoryAuditTable
from haltline.streams.audit.writer import Place
from tests.streams.audit.fake_kafka import FakeKafka, SinkOnFake, Story
from tests.streams.audit.records import TOPICS

ACTIONS, OTHER = Place(TOPICS.actions, 0), Place(TOPICS.actions, 1)


def written(table: MemoryAuditTable) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in table.rows)


def test_a_sink_runs_in_the_thread_of_a_simulation_on_what_it_is_given() -> None:
    kafka, table = FakeKafka(), MemoryAuditTable()
    kafka.append(ACTIONS, 5)

    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        kafka.append(ACTIONS, 3)
        yield

    SinkOnFake(kafka, table, story).run()
    assert written(table) == kafka.positions()
    assert kafka.committed == {ACTIONS: 8}
