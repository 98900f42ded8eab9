"""The sink on the embedded broker and a Delta table: what it writes, where it begins, how it ends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition

from haltline.schemas.topics import Topics
from haltline.streams.audit.query import open_query, session_story
from haltline.streams.audit.run import EXIT_FAILED, run_audit, running_audit
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.audit.log import Log, assert_each_once, wait_for_rows
from tests.streams.audit.records import REASON, one_of_each


@pytest.fixture
def cluster_log(mock_cluster: Callable[[int], MockCluster]) -> Iterator[tuple[MockCluster, Log]]:
    """All topics with 4 partitions, on a broker whose group joins at once."""
    cluster = mock_cluster(1)
    topics = Topics()
    for name in topics.all:
        cluster.create_topic(name)
    with Log(cluster.bootstrap, topics) as log:
        yield cluster, log


@pytest.fixture
def log(cluster_log: tuple[MockCluster, Log]) -> Log:
    return cluster_log[1]


def test_every_topic_is_audited_each_record_once_and_the_group_shows_how_far(log: Log, tmp_path: Path) -> None:
    log.send_one_of_each()
    bad = [b"\xff" * 50, b"{", None, b"[" * 50_000, b'{"v":1}', b"x" * (2 * 1024 * 1024)]
    for value in bad:
        log.send(log.topics.actions, value, partition=1, key=b"\xff\x00", headers=[("h", b"\xff"), ("h", None)])
    log.flush()
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, len(one_of_each()) + len(bad))
        log.send_events(300)
        wait_for_rows(tmp_path, len(one_of_each()) + len(bad) + 306)
    assert_each_once(tmp_path, log.positions())
    rows = open_query(tmp_path).rows(
        f"SELECT raw, decode_error FROM audit WHERE topic = '{log.topics.actions}' AND \"partition\" = 1 ORDER BY "
        '"offset" LIMIT 7'
    )
    assert [row["raw"] for row in rows[:6]] == bad
    assert [row["decode_error"] is None for row in rows] == [False] * 6 + [True]
    with log.consumer() as consumer:
        assert log.committed("haltline-audit") == {
            place: end
            for place in {(topic, partition) for topic, partition, _ in log.positions()}
            for _, end in [consumer.get_watermark_offsets(TopicPartition(*place), timeout=10)]
        }
    story = session_story(tmp_path, "42")
    assert f"session_killed: {REASON}" in [row["summary"] for row in story]
    (kill,) = [row for row in story if row["kind"] == "decision"]
    assert (kill["level"], kill["code"], kill["detector"]) == (
        "KILL",
        "session_killed_loop_guard",
        "destructive_repeat",
    )


def test_a_broker_or_a_table_that_is_not_there_or_forbids_to_read_ends_it_with_a_message(
    cluster_log: tuple[MockCluster, Log], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, log = cluster_log
    (tmp_path / "file").write_text("in the way")
    assert run_audit(log.settings(tmp_path / "file" / "audit")) == EXIT_FAILED
    assert "Not a directory" in caplog.text
    caplog.clear()
    assert run_audit(log.settings(tmp_path, bootstrap="127.0.0.1:1", answer_within_s=0.5)) == EXIT_FAILED
    assert "audit sink: KafkaException" in caplog.text
    cluster.fail_next(ApiKey.LIST_OFFSETS, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 200)
    assert run_audit(log.settings(tmp_path)) == EXIT_FAILED
    assert "TOPIC_AUTHORIZATION_FAILED" in caplog.text
