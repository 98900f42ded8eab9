"""The sink step by step: what happens between a poll, a flush and a rebalance, in every order that matters."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from haltline.schemas.keys import make_keys
from haltline.streams.audit.memory import MemoryAuditTable, Step
from haltline.streams.audit.writer import AnotherLog, Place
from tests.streams.audit.fake_kafka import FakeKafka, SinkOnFake, Story
from tests.streams.audit.records import TOPICS

ACTIONS, OTHER, CONTROL = Place(TOPICS.actions, 0), Place(TOPICS.actions, 1), Place(TOPICS.control, 0)


@pytest.fixture
def kafka() -> FakeKafka:
    """Two partitions of one topic and one of another, 5 records each."""
    kafka = FakeKafka()
    for place in (ACTIONS, OTHER, CONTROL):
        kafka.append(place, 5)
    return kafka


@pytest.fixture
def table() -> MemoryAuditTable:
    return MemoryAuditTable()


def written(table: MemoryAuditTable) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in table.rows)


def reads(*places: Place) -> Callable[[SinkOnFake], Story]:
    """A sink that is given these partitions, reads them to their ends and stops."""

    def story(sink: SinkOnFake) -> Story:
        sink.given(*places)
        yield

    return story


def test_a_sink_runs_in_one_thread_on_the_kafka_and_the_clock_that_it_is_given(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    SinkOnFake(kafka, table, reads(ACTIONS, OTHER, CONTROL)).run()
    assert written(table) == kafka.positions()
    assert kafka.committed == {ACTIONS: 5, OTHER: 5, CONTROL: 5}


def test_a_rebalance_between_a_poll_and_a_flush_leaves_what_was_read_to_the_next_owner(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS, OTHER)
        yield
        yield
        assert sink.sink.buffered_rows == 10
        sink.revoked(ACTIONS, OTHER)
        sink.given(OTHER)
        yield

    SinkOnFake(kafka, table, story, flush_s=600.0).run()
    assert written(table) == [(*OTHER, offset) for offset in range(5)]
    SinkOnFake(kafka, table, reads(ACTIONS, OTHER, CONTROL)).run()
    assert written(table) == kafka.positions()


def test_a_member_that_the_group_has_lost_reads_again_what_it_has_buffered(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS, OTHER, CONTROL)
        yield
        yield
        sink.lost(ACTIONS, OTHER, CONTROL)
        yield
        assert sink.sink.buffered_rows == 0
        sink.given(ACTIONS, OTHER, CONTROL)
        yield

    SinkOnFake(kafka, table, story, flush_s=600.0).run()
    assert written(table) == kafka.positions()


def test_records_that_come_with_a_rebalance_in_the_same_call_are_not_taken(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS, OTHER)
        yield

        def rebalance() -> None:
            sink.revoked(ACTIONS, OTHER)
            sink.given(OTHER)

        sink.during_consume = rebalance
        yield

    SinkOnFake(kafka, table, story).run()
    assert written(table) == [(*OTHER, offset) for offset in range(5)]


def test_a_second_assignment_before_the_first_is_placed_counts_alone(kafka: FakeKafka, table: MemoryAuditTable) -> None:
    def story(sink: SinkOnFake) -> Story:
        kafka.failures = [KafkaError.LEADER_NOT_AVAILABLE]  # so the first is not placed at once
        sink.given(ACTIONS, CONTROL)
        yield
        sink.revoked(ACTIONS, CONTROL)
        sink.given(OTHER)
        yield

    SinkOnFake(kafka, table, story).run()
    assert written(table) == [(*OTHER, offset) for offset in range(5)]


@pytest.mark.parametrize("read_first", [False, True], ids=["not read yet", "read and not written"])
def test_an_assignment_replaces_the_one_before_though_nothing_was_revoked(
    kafka: FakeKafka, table: MemoryAuditTable, read_first: bool
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS, CONTROL)
        yield
        if read_first:
            yield
        sink.given(OTHER)
        yield
        SinkOnFake(kafka, table, reads(ACTIONS, CONTROL)).run()
        yield
        assert sink.assigned_from().keys() == {OTHER}

    SinkOnFake(kafka, table, story, flush_s=600.0).run()
    assert written(table) == kafka.positions()


@pytest.mark.parametrize("step", [Step.OPEN, Step.COMMIT, Step.ANSWER])
def test_a_sink_that_stands_still_at_a_step_of_a_commit_while_another_takes_over_writes_nothing_twice(
    kafka: FakeKafka, table: MemoryAuditTable, step: Step
) -> None:
    def take_over(at: Step) -> None:
        if at is step and kafka.now_s > 2.0:
            table.at_step = lambda _: None
            kafka.append(ACTIONS, 2)
            SinkOnFake(kafka, table, reads(ACTIONS, OTHER)).run()

    def story(zombie: SinkOnFake) -> Story:
        zombie.given(ACTIONS, OTHER, CONTROL)
        yield
        kafka.now_s = 3.0
        yield
        yield
        kafka.append(ACTIONS, 2)
        yield

    table.at_step = take_over
    SinkOnFake(kafka, table, story).run()
    assert table.at_step is not take_over
    assert written(table) == kafka.positions()


def test_the_next_owner_goes_on_behind_what_the_one_before_still_writes(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def heir(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        SinkOnFake(kafka, table, reads(ACTIONS, OTHER, CONTROL)).run()
        kafka.append(ACTIONS, 3)
        yield
        yield

    SinkOnFake(kafka, table, heir, flush_s=600.0).run()
    SinkOnFake(kafka, table, reads(ACTIONS)).run()
    assert written(table) == kafka.positions()


@pytest.mark.parametrize(
    ("step", "there"), [pytest.param(Step.COMMIT, 0, id="not made"), pytest.param(Step.ANSWER, 15, id="made")]
)
def test_a_commit_that_fails_ends_the_sink_and_the_next_one_goes_on_behind_it(
    kafka: FakeKafka, table: MemoryAuditTable, step: Step, there: int
) -> None:
    def fail(at: Step) -> None:
        if at is step:
            raise OSError("connection reset by peer")

    table.at_step = fail
    with pytest.raises(OSError, match="reset by peer"):
        SinkOnFake(kafka, table, reads(ACTIONS, OTHER, CONTROL)).run()
    assert len(table.rows) == there
    table.at_step = lambda _: None
    SinkOnFake(kafka, table, reads(ACTIONS, OTHER, CONTROL)).run()
    assert written(table) == kafka.positions()


def test_a_stop_while_partitions_are_not_placed_writes_what_is_there_and_ends(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        kafka.failures = [KafkaError._TRANSPORT] * 5
        sink.given(ACTIONS)
        sink.sink.stop()
        yield

    SinkOnFake(kafka, table, story).run()
    assert table.rows == []


def test_records_that_arrive_with_the_news_that_the_next_ones_are_deleted_are_kept(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        kafka.fetched(ACTIONS, 5)
        kafka.append(ACTIONS, 10)
        kafka.delete_before(ACTIONS, 13)
        yield

    SinkOnFake(kafka, table, story, flush_s=600.0).run()
    lost = [row for row in table.rows if row["kind"] == "records.lost"]
    assert [row["offset"] for row in lost] == [10]
    assert re.search("offsets 10 to 12 were deleted", lost[0]["summary"])
    assert [offset for *_, offset in written(table)] == [*range(11), *range(13, 20)]


@pytest.mark.parametrize("grows_s", [0.4, 5.0], ids=["within the time to answer", "only later"])
def test_an_end_that_is_behind_the_table_is_asked_for_again(
    kafka: FakeKafka, table: MemoryAuditTable, grows_s: float
) -> None:
    """The end of a broker that has restarted lags behind what it has delivered before."""
    SinkOnFake(kafka, table, reads(ACTIONS)).run()
    kafka.lags(ACTIONS, 3, until_s=kafka.now_s + grows_s)
    kafka.append(ACTIONS, 2)
    sink = SinkOnFake(kafka, table, reads(ACTIONS), answer_within_s=1.0)
    if grows_s < 1:
        sink.run()
        assert len(table.rows) == 7
    else:
        with pytest.raises(AnotherLog, match="goes on behind offset 4"):
            sink.run()


def test_a_topic_that_is_recreated_under_a_reader_is_refused_before_any_record_of_it_is_written(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        yield
        yield
        assert len(table.rows) == 5
        kafka.recreate(TOPICS.actions)
        kafka.append(ACTIONS, 9)  # so the offset that is read next is there
        yield

    with pytest.raises(AnotherLog, match="deleted and recreated"):
        SinkOnFake(kafka, table, story).run()
    assert len(table.rows) == 5


def test_a_topic_that_is_recreated_and_shorter_is_refused_though_it_has_grown_when_its_end_is_asked_for(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        yield
        yield
        kafka.recreate(TOPICS.actions)
        sink.during_consume = lambda: kafka.append(ACTIONS, 9)
        yield
        kafka.append(ACTIONS, 9)
        yield

    with pytest.raises(AnotherLog, match="deleted and recreated"):
        SinkOnFake(kafka, table, story).run()
    assert len(table.rows) == 5


def test_a_topic_that_is_recreated_before_its_first_commit_is_not_mixed_with_its_former_life(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        yield
        kafka.recreate(TOPICS.actions)
        kafka.append(ACTIONS, 9)
        yield

    with pytest.raises(AnotherLog, match="deleted and recreated"):
        SinkOnFake(kafka, table, story, flush_s=600.0).run()
    assert table.rows == []


def test_nothing_is_written_until_the_broker_says_that_topics_are_the_same(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        kafka.failures = [KafkaError._TRANSPORT] * 3
        yield
        assert (table.rows, sink.sink.buffered_rows) == ([], 5)
        yield

    SinkOnFake(kafka, table, story).run()
    assert len(table.rows) == 5


def test_what_was_read_of_a_topic_that_is_deleted_is_written(kafka: FakeKafka, table: MemoryAuditTable) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        kafka.failures = [KafkaError.UNKNOWN_TOPIC_OR_PART]
        yield

    SinkOnFake(kafka, table, story).run()
    assert len(table.rows) == 5


def test_two_sinks_that_end_at_the_same_moment_may_both_sign(
    kafka: FakeKafka, table: MemoryAuditTable, tmp_path: Path
) -> None:
    make_keys(tmp_path / "key.pem")

    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        SinkOnFake(kafka, table, reads(ACTIONS), signing_key=tmp_path / "key.pem").run()

    SinkOnFake(kafka, table, story, signing_key=tmp_path / "key.pem").run()
    assert len([row for row in table.rows if row["topic"] == TOPICS.actions]) == 5
