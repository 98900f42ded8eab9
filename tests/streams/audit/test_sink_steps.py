"""The sink step by step: what happens between a poll, a flush and a rebalance; the simulator has whole histories."""

from collections.abc import Callable
from pathlib import Path

import pytest

from haltline.schemas.keys import make_keys
from haltline.streams.audit.writer import AnotherLog, Place
from tests.streams.audit.fake_kafka import FakeConsumer, FakeKafka, Story
from tests.streams.audit.records import TOPICS

ACTIONS = Place(TOPICS.actions, 0)
LATER = 600.0
"""A flush that does not come by its time."""


@pytest.fixture
def kafka() -> FakeKafka:
    """A partition of 5 records."""
    kafka = FakeKafka()
    kafka.append(ACTIONS, 5)
    return kafka


def reads(*places: Place, then: Callable[[], object] = lambda: None) -> Callable[[FakeConsumer], Story]:
    """A sink that is given these partitions and reads them to their ends; `then` happens, and it reads on and stops."""

    def story(sink: FakeConsumer) -> Story:
        sink.given(*places)
        for _ in range(3):
            yield
        then()
        yield

    return story


def lost(kafka: FakeKafka) -> list[str]:
    return [row["summary"].partition(" were ")[0] for row in kafka.table.rows if row["kind"] == "records.lost"]


def test_records_that_arrive_with_the_news_that_the_next_ones_are_deleted_are_kept(kafka: FakeKafka) -> None:
    def story(sink: FakeConsumer) -> Story:
        sink.given(ACTIONS)
        yield
        kafka.append(ACTIONS, 5, fetched=True)
        kafka.append(ACTIONS, 10)
        kafka.partitions[ACTIONS].first = 13
        yield

    kafka.run(story, flush_s=LATER)
    assert lost(kafka) == ["lost: haltline.actions[0] offsets 10 to 12"]
    assert [offset for *_, offset in kafka.written()] == [*range(11), *range(13, 20)]


@pytest.mark.parametrize("grows_s", [0.4, 5.0], ids=["within the time to answer", "only later"])
def test_an_end_that_is_behind_the_table_is_asked_for_again(kafka: FakeKafka, grows_s: float) -> None:
    """The end of a broker that has restarted lags behind what it has delivered before."""
    kafka.run(reads(ACTIONS))
    kafka.partitions[ACTIONS].lag = (3, kafka.now_s + grows_s)
    kafka.append(ACTIONS, 2)
    if grows_s < 1:
        kafka.run(reads(ACTIONS), answer_within_s=1.0)
        assert len(kafka.table.rows) == 7
    else:
        with pytest.raises(AnotherLog, match="goes on behind offset 4"):
            kafka.run(reads(ACTIONS), answer_within_s=1.0)


def test_two_sinks_that_end_at_the_same_moment_may_both_sign(kafka: FakeKafka, tmp_path: Path) -> None:
    make_keys(key := tmp_path / "key.pem")
    kafka.run(reads(ACTIONS, then=kafka.sink(reads(ACTIONS), signing_key=key).run), signing_key=key)
    assert len([row for row in kafka.table.rows if row["topic"] == TOPICS.actions]) == 5
