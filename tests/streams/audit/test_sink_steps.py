"""The sink step by step: what happens between a poll, a flush and a rebalance, in every order that matters."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.keys import make_keys
from haltline.streams.audit.memory import MemoryAuditTable, Step
from haltline.streams.audit.writer import AnotherLog, Place
from tests.streams.audit.fake_kafka import FakeKafka, SinkOnFake, Story
from tests.streams.audit.records import TOPICS

ACTIONS, OTHER, CONTROL = Place(TOPICS.actions, 0), Place(TOPICS.actions, 1), Place(TOPICS.control, 0)
ALL = (ACTIONS, OTHER, CONTROL)
LATER = 600.0
"""A flush that does not come by its time."""


@pytest.fixture
def kafka() -> FakeKafka:
    """Two partitions of one topic and one of another, 5 records each."""
    kafka = FakeKafka()
    for place in ALL:
        kafka.append(place, 5)
    return kafka


@pytest.fixture
def table() -> MemoryAuditTable:
    return MemoryAuditTable()


def written(table: MemoryAuditTable) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in table.rows)


def reads(*places: Place, then: Callable[[], object] = lambda: None) -> Callable[[SinkOnFake], Story]:
    """A sink that is given these partitions and reads them to their ends; `then` happens, and it reads on and stops."""

    def story(sink: SinkOnFake) -> Story:
        sink.given(*places)
        yield
        yield
        yield
        then()
        yield

    return story


def test_a_sink_runs_in_one_thread_on_the_kafka_and_the_clock_that_it_is_given(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    SinkOnFake(kafka, table, reads(*ALL)).run()
    assert written(table) == kafka.positions()
    assert kafka.committed == dict.fromkeys(ALL, 5)


@pytest.mark.parametrize("limit", [{"flush_rows": 5}, {"flush_bytes": 1000}], ids=str)
def test_a_full_buffer_is_written_before_its_time(
    kafka: FakeKafka, table: MemoryAuditTable, limit: dict[str, int]
) -> None:
    full = reads(ACTIONS, then=lambda: sink.sink.stop() if len(table.rows) == 5 else pytest.fail("not written"))
    sink = SinkOnFake(kafka, table, full, flush_s=LATER, **limit)
    sink.run()


def test_a_rebalance_between_a_poll_and_a_flush_leaves_what_was_read_to_the_next_owner(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def rebalance() -> None:
        assert sink.sink.buffered_rows == 10
        sink.revoked(ACTIONS, OTHER)
        sink.given(OTHER)

    sink = SinkOnFake(kafka, table, reads(ACTIONS, OTHER, then=rebalance), flush_s=LATER)
    sink.run()
    assert written(table) == [(*OTHER, offset) for offset in range(5)]
    SinkOnFake(kafka, table, reads(*ALL)).run()
    assert written(table) == kafka.positions()


def test_records_that_come_with_a_rebalance_in_the_same_call_are_not_taken(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS, OTHER)
        yield
        sink.during_consume = lambda: (sink.revoked(ACTIONS, OTHER), sink.given(OTHER))
        yield

    SinkOnFake(kafka, table, story).run()
    assert written(table) == [(*OTHER, offset) for offset in range(5)]


@pytest.mark.parametrize("revoked", [True, False])
def test_a_second_assignment_before_the_first_is_placed_counts_alone(
    kafka: FakeKafka, table: MemoryAuditTable, revoked: bool
) -> None:
    def story(sink: SinkOnFake) -> Story:
        kafka.failures = [KafkaError.LEADER_NOT_AVAILABLE]  # so the first is not placed at once
        sink.given(ACTIONS, CONTROL)
        yield
        if revoked:
            sink.revoked(ACTIONS, CONTROL)
        sink.given(OTHER)
        yield

    SinkOnFake(kafka, table, story).run()
    assert written(table) == [(*OTHER, offset) for offset in range(5)]


def test_an_assignment_replaces_the_one_before_though_nothing_was_revoked(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def story(sink: SinkOnFake) -> Story:
        yield from reads(ACTIONS, CONTROL)(sink)
        sink.given(OTHER)
        yield
        SinkOnFake(kafka, table, reads(ACTIONS, CONTROL)).run()
        kafka.append(OTHER)
        yield
        assert sink.assigned_from().keys() == {OTHER}

    SinkOnFake(kafka, table, story).run()
    assert written(table) == kafka.positions()


@pytest.mark.parametrize("step", Step)
def test_a_sink_that_stands_still_at_a_step_of_a_commit_while_another_takes_over_writes_nothing_twice(
    kafka: FakeKafka, table: MemoryAuditTable, step: Step
) -> None:
    def take_over(at: Step) -> None:
        if at is step and kafka.now_s > 2.0:
            table.at_step = lambda _: None
            kafka.append(ACTIONS, 2)
            SinkOnFake(kafka, table, reads(ACTIONS, OTHER)).run()

    def story(zombie: SinkOnFake) -> Story:
        zombie.given(*ALL)
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


@pytest.mark.parametrize(
    ("step", "there"), [pytest.param(Step.COMMIT, 0, id="not made"), pytest.param(Step.ANSWER, 15, id="made")]
)
def test_a_commit_that_fails_ends_the_sink_and_the_next_one_goes_on_behind_it(
    kafka: FakeKafka, table: MemoryAuditTable, step: Step, there: int
) -> None:
    table.at_step = fails_at(step)
    with pytest.raises(OSError, match="reset by peer"):
        SinkOnFake(kafka, table, reads(*ALL)).run()
    assert len(table.rows) == there
    table.at_step = lambda _: None
    SinkOnFake(kafka, table, reads(*ALL)).run()
    assert written(table) == kafka.positions()


def fails_at(step: Step) -> Callable[[Step], None]:
    def fail(at: Step) -> None:
        if at is step:
            raise OSError("connection reset by peer")

    return fail


HAPPENS: dict[str, Callable[[FakeKafka, MemoryAuditTable, SinkOnFake], object]] = {
    "records arrive": lambda kafka, _, __: kafka.append(ACTIONS, 2),
    "a rebalance": lambda _, __, sink: (sink.revoked(*sink.owned), sink.given(*ALL)),
    "half is left": lambda _, __, sink: (sink.revoked(*sink.owned), sink.given(OTHER)),
    "the group goes on without it": lambda _, __, sink: (sink.lost(*sink.owned), sink.given(*ALL)),
    "no leader": lambda kafka, _, __: kafka.failures.extend([KafkaError.LEADER_NOT_AVAILABLE] * 2),
    "no broker": lambda kafka, _, __: kafka.failures.extend([KafkaError._TRANSPORT] * 3),
    "another reads all": lambda kafka, table, _: SinkOnFake(kafka, table, reads(*ALL)).run(),
    "an end lags": lambda kafka, _, __: kafka.lags(ACTIONS, 3, until_s=kafka.now_s + 0.5),
    "a full disk": lambda _, table, __: setattr(table, "at_step", fails_at(Step.COMMIT)),
    "a lost answer": lambda _, table, __: setattr(table, "at_step", fails_at(Step.ANSWER)),
    "a stop": lambda _, __, sink: sink.sink.stop(),
}


@given(st.lists(st.sampled_from(sorted(HAPPENS)), max_size=12), st.sampled_from([1e-9, 0.01, LATER]))
def test_whatever_happens_each_record_is_there_once(happens: list[str], flush_s: float) -> None:
    kafka, table = FakeKafka(), MemoryAuditTable()
    for place in ALL:
        kafka.append(place, 3)

    def story(sink: SinkOnFake) -> Story:
        sink.given(*ALL)
        for each in happens:
            yield
            HAPPENS[each](kafka, table, sink)
        yield

    with suppress(OSError):  # the process is started again
        SinkOnFake(kafka, table, story, flush_s=flush_s).run()
    table.at_step = lambda _: None
    kafka.failures.clear()
    SinkOnFake(kafka, table, reads(*ALL)).run()
    assert written(table) == kafka.positions()


def test_records_that_were_deleted_unread_are_reported_once_and_the_rest_is_written(
    kafka: FakeKafka, table: MemoryAuditTable, caplog: pytest.LogCaptureFixture
) -> None:
    SinkOnFake(kafka, table, reads(ACTIONS)).run()
    kafka.append(ACTIONS, 10)
    kafka.delete_before(ACTIONS, 8)
    for _ in range(2):
        SinkOnFake(kafka, table, reads(ACTIONS)).run()
    assert lost(table) == ["lost: haltline.actions[0] offsets 5 to 7 were deleted by the broker before they were read"]
    assert [offset for *_, offset in written(table)] == [*range(6), *range(8, 15)]
    assert caplog.text.count("LOST 3 records") == 1


def lost(table: MemoryAuditTable) -> list[str]:
    return [row["summary"] for row in table.rows if row["kind"] == "records.lost"]


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

    SinkOnFake(kafka, table, story, flush_s=LATER).run()
    assert ["offsets 10 to 12 were deleted" in each for each in lost(table)] == [True]
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


@pytest.mark.parametrize("longer", [True, False], ids=["and is longer", "and grows only when its end is asked for"])
def test_a_topic_that_is_recreated_under_a_reader_is_refused_before_any_record_of_it_is_written(
    kafka: FakeKafka, table: MemoryAuditTable, longer: bool
) -> None:
    def story(sink: SinkOnFake) -> Story:
        yield from reads(ACTIONS)(sink)
        assert len(table.rows) == 5
        kafka.recreate(TOPICS.actions)
        if longer:
            kafka.append(ACTIONS, 9)
        else:
            sink.during_consume = lambda: kafka.append(ACTIONS, 9)
        yield

    with pytest.raises(AnotherLog, match="deleted and recreated"):
        SinkOnFake(kafka, table, story).run()
    assert len(table.rows) == 5


def test_a_topic_that_is_recreated_before_its_first_commit_is_not_mixed_with_its_former_life(
    kafka: FakeKafka, table: MemoryAuditTable
) -> None:
    def recreate() -> None:
        kafka.recreate(TOPICS.actions)
        kafka.append(ACTIONS, 9)

    with pytest.raises(AnotherLog, match="deleted and recreated"):
        SinkOnFake(kafka, table, reads(ACTIONS, then=recreate), flush_s=LATER).run()
    assert table.rows == []


@pytest.mark.parametrize(
    ("failures", "rows"),
    [
        pytest.param([KafkaError._TRANSPORT] * 3, 0, id="a broker that is away"),
        pytest.param([KafkaError.UNKNOWN_TOPIC_OR_PART], 5, id="a topic that is deleted, what was read of it is kept"),
        pytest.param([KafkaError.TOPIC_AUTHORIZATION_FAILED] * 9, 5, id="an id that may not be seen"),
    ],
)
def test_nothing_is_written_until_the_broker_says_that_topics_are_the_same(
    kafka: FakeKafka, table: MemoryAuditTable, failures: list[int], rows: int
) -> None:
    def story(sink: SinkOnFake) -> Story:
        sink.given(ACTIONS)
        yield
        kafka.failures = failures
        yield
        assert (len(table.rows), sink.sink.buffered_rows) == (rows, 5 - rows)
        yield

    SinkOnFake(kafka, table, story).run()
    assert len(table.rows) == 5


@pytest.mark.parametrize(
    ("code", "passes"), [(KafkaError._TRANSPORT, True), (KafkaError.GROUP_AUTHORIZATION_FAILED, False)], ids=str
)
def test_an_error_that_does_not_pass_ends_the_sink(
    kafka: FakeKafka, table: MemoryAuditTable, code: int, passes: bool
) -> None:
    sink = SinkOnFake(kafka, table, reads(ACTIONS, then=lambda: sink.errors.append(KafkaError(code))))
    if passes:
        sink.run()
    else:
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            sink.run()
    assert len(table.rows) == 5


def test_two_sinks_that_end_at_the_same_moment_may_both_sign(
    kafka: FakeKafka, table: MemoryAuditTable, tmp_path: Path
) -> None:
    make_keys(key := tmp_path / "key.pem")
    meanwhile = SinkOnFake(kafka, table, reads(ACTIONS), signing_key=key)
    SinkOnFake(kafka, table, reads(ACTIONS, then=meanwhile.run), signing_key=key).run()
    assert len([row for row in table.rows if row["topic"] == TOPICS.actions]) == 5
