"""The sink on the embedded broker: what it writes, where it begins, how it ends."""

import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition

from haltline.schemas.topics import Topics
from haltline.streams.audit.memory import MemoryAuditTable
from haltline.streams.audit.query import open_query, session_story
from haltline.streams.audit.run import EXIT_FAILED, run_audit, running_audit
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.audit.log import Log, SinkProcess, assert_each_once, rows_of, wait_for_rows
from tests.streams.audit.records import REASON, event, one_of_each
from tests.waiting import wait_until


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


def test_every_topic_is_audited_and_each_record_is_there_once(log: Log, tmp_path: Path) -> None:
    log.send_one_of_each()
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, len(one_of_each()))
        log.send_events(300)
        wait_for_rows(tmp_path, len(one_of_each()) + 306)
    assert_each_once(tmp_path, log.positions())


def test_the_row_of_the_scenario_is_in_the_story_of_its_session(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    log = Log(embedded.bootstrap, Topics())
    log.send_one_of_each()
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, len(one_of_each()))
    story = session_story(tmp_path, "42")
    assert f"session_killed: {REASON}" in [row["summary"] for row in story]
    (kill,) = [row for row in story if row["kind"] == "decision"]
    assert (kill["level"], kill["code"], kill["detector"]) == (
        "KILL",
        "session_killed_loop_guard",
        "destructive_repeat",
    )


def test_a_broker_that_is_away_is_reported_once_and_that_it_is_back(
    cluster_log: tuple[MockCluster, Log], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, log = cluster_log
    log.send_events(5)
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, 6)
        cluster.set_down()
        wait_until(lambda: "audit sink: the broker is away: " in caplog.text, "it is said")
        cluster.set_up()
        wait_until(lambda: "audit sink: the broker is away no longer" in caplog.text, "it is said", deadline_s=60)
    assert caplog.text.count("is away: ") == 1


def test_what_is_buffered_at_a_stop_is_written(log: Log, tmp_path: Path) -> None:
    log.send_events(20)
    with running_audit(log.settings(tmp_path, flush_s=600.0)) as sink:
        wait_until(lambda: sink.buffered_rows == 21, "all is read")
        assert rows_of(tmp_path) == 0
    assert_each_once(tmp_path, log.positions())


@pytest.mark.parametrize("limit", [{"flush_rows": 10}, {"flush_bytes": 4000}], ids=["rows", "bytes"])
def test_a_full_buffer_is_written_before_its_time(log: Log, tmp_path: Path, limit: dict[str, object]) -> None:
    log.send_events(30)
    with running_audit(log.settings(tmp_path, flush_s=600.0, **limit)):
        wait_for_rows(tmp_path, 20)


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("end", id="at the end of what it never wrote"),
        pytest.param("beginning", id="at the beginning of what it wrote long ago"),
    ],
)
def test_the_table_says_where_to_begin_whatever_the_group_says(log: Log, tmp_path: Path, where: str) -> None:
    log.send_events(100)
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, 102)
    log.send_events(100, first=100)
    ends = {place: offset for place in log.places() for offset in [_end(log, place)]}
    log.commit(
        "misled",
        [TopicPartition(p.topic, p.partition, end if where == "end" else 0) for p, end in ends.items()],
    )
    with running_audit(log.settings(tmp_path, group="misled")):
        wait_for_rows(tmp_path, 204)
        log.send_events(50, first=200)
        wait_for_rows(tmp_path, 255)
    assert_each_once(tmp_path, log.positions())


def _end(log: Log, place: TopicPartition) -> int:
    with log.consumer() as consumer:
        return int(consumer.get_watermark_offsets(place, timeout=10)[1])


def test_the_group_shows_how_far_the_table_is(log: Log, tmp_path: Path) -> None:
    log.send_events(100)
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, 102)
    written = log.committed("haltline-audit")
    assert sum(written.values()) == 102
    assert all(offset == _end(log, TopicPartition(*place)) for place, offset in written.items())
    log.commit("misled", [TopicPartition(*place, 0) for place in written])
    with running_audit(log.settings(tmp_path, group="misled")):
        wait_until(lambda: log.committed("misled") == written, "the group is shown what the table says")


def test_what_cannot_be_read_is_kept_and_holds_nothing_up(log: Log, tmp_path: Path) -> None:
    bad = [b"\xff" * 50, b"{", None, b"[" * 50_000, b'{"v":1}', b"x" * (2 * 1024 * 1024)]
    for value in bad:
        log.send(log.topics.actions, value, key=b"\xff\x00", headers=[("h", b"\xff"), ("h", None)])
    log.send(log.topics.dead_letter, b"no headers")
    log.send(log.topics.actions, event().to_json(), key="42")
    log.flush()
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, len(bad) + 2)
    rows = open_query(tmp_path).rows(
        f"SELECT raw, decode_error FROM audit WHERE topic = '{log.topics.actions}' ORDER BY \"offset\""
    )
    assert [row["raw"] for row in rows] == [*bad, event().to_json()]
    assert [row["decode_error"] is None for row in rows] == [False] * len(bad) + [True]


def test_records_that_the_broker_deleted_unread_are_reported_and_the_rest_is_written(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.send_events(40)
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, 41)
    for _ in range(30):  # the mock broker keeps 5 MiB of a partition
        log.send(log.topics.actions, b"x" * 500_000)
        log.flush()
    with log.consumer() as consumer:
        first, end = consumer.get_watermark_offsets(TopicPartition(log.topics.actions, 0), timeout=10)
    assert first > 10
    with caplog.at_level(logging.ERROR, "haltline"), running_audit(log.settings(tmp_path, group="second")):
        wait_for_rows(tmp_path, 41 + 1 + end - first)
    (lost,) = open_query(tmp_path).rows("SELECT * FROM audit WHERE kind = 'records.lost'")
    assert (lost["offset"], lost["raw"]) == (10, None)
    assert lost["summary"] == (
        f"lost: {log.topics.actions}[0] offsets 10 to {first - 1} were deleted by the broker before they were read"
    )
    assert f"LOST {first - 10} records" in caplog.text
    with running_audit(log.settings(tmp_path, group="third")):
        log.send(log.topics.actions, b"{}")
        log.flush()
        wait_for_rows(tmp_path, 41 + 1 + end - first + 1)
    assert open_query(tmp_path).rows("SELECT count(*) AS n FROM audit WHERE kind = 'records.lost'") == [{"n": 1}]


def test_questions_are_answered_while_it_writes(log: Log, tmp_path: Path) -> None:
    counts: list[int] = []
    with running_audit(log.settings(tmp_path, flush_s=0.02)):
        ask = open_query(tmp_path)
        for first in range(0, 2000, 200):
            log.send_events(200, first=first)
            wait_for_rows(tmp_path, 1)
            while not counts or counts[-1] < (first + 200) * 51 // 50:
                (row,) = ask.rows(
                    'SELECT count(*) AS n, count(DISTINCT "topic" || "partition" || \'-\' || "offset") AS d FROM audit'
                )
                assert row["n"] == row["d"]
                counts.append(row["n"])
    assert counts == sorted(counts)
    assert len(set(counts)) >= 10


def test_two_sinks_share_the_partitions(log: Log, tmp_path: Path) -> None:
    every = 4 * len(log.topics.all)
    with running_audit(log.settings(tmp_path)) as one:
        wait_until(lambda: one.assigned == every, "the first has all partitions")
        log.send_events(500)
        with running_audit(log.settings(tmp_path)) as other:
            wait_until(lambda: one.assigned == other.assigned == every // 2, "the second has its half", deadline_s=60)
            log.send_events(500, first=500)
            wait_for_rows(tmp_path, 1020)
        wait_until(lambda: one.assigned == every, "the first has all partitions again", deadline_s=60)
        log.send_events(500, first=1000)
        wait_for_rows(tmp_path, 1530)
    assert_each_once(tmp_path, log.positions())


def test_two_sinks_that_both_read_everything_write_each_record_once(log: Log, tmp_path: Path) -> None:
    log.send_events(500)
    with (
        running_audit(log.settings(tmp_path, group="one")),
        running_audit(log.settings(tmp_path, group="other")),
    ):
        for first in range(500, 3000, 500):
            log.send_events(500, first=first)
        wait_for_rows(tmp_path, 3060)
    assert_each_once(tmp_path, log.positions())


def test_a_sink_by_another_name_reads_everything_again(log: Log, tmp_path: Path) -> None:
    log.send_events(50)
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, 51)
    with running_audit(log.settings(tmp_path, sink="second", group="second")):
        wait_for_rows(tmp_path, 102)
    by_sink = open_query(tmp_path).rows("SELECT sink, count(*) AS n FROM audit GROUP BY 1 ORDER BY 1")
    assert by_sink == [{"sink": "audit", "n": 51}, {"sink": "second", "n": 51}]


def test_a_table_of_another_cluster_is_refused_and_left_alone(
    log: Log, mock_cluster: Callable[[int], MockCluster], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.send_events(50)
    with running_audit(log.settings(tmp_path)):
        wait_for_rows(tmp_path, 51)
    cluster = mock_cluster(1)
    for name in log.topics.all:
        cluster.create_topic(name)
    other = Log(cluster.bootstrap, log.topics)
    other.send_events(500)
    assert run_audit(other.settings(tmp_path)) == EXIT_FAILED
    assert "audit#cluster" in caplog.text
    assert "Use another table or another sink name" in caplog.text
    assert rows_of(tmp_path) == 51


def test_a_broker_that_does_not_answer_ends_it_with_a_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Log("127.0.0.1:1", Topics())
    assert run_audit(log.settings(tmp_path, answer_within_s=0.5)) == EXIT_FAILED
    assert "audit sink: KafkaException" in caplog.text


def test_a_table_that_cannot_be_made_ends_it_with_a_message(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert run_audit(log.settings(tmp_path / "file" / "audit")) == EXIT_FAILED
    assert "Not a directory" in caplog.text


def test_a_broker_that_cannot_say_where_a_partition_begins_is_retried(
    cluster_log: tuple[MockCluster, Log], tmp_path: Path
) -> None:
    cluster, log = cluster_log
    log.send_events(50)
    cluster.fail_next(ApiKey.LIST_OFFSETS, [KafkaError.NOT_LEADER_FOR_PARTITION] * 5)
    with running_audit(log.settings(tmp_path, answer_within_s=2.0)):  # each of the five may take so long
        wait_for_rows(tmp_path, 51)
    assert_each_once(tmp_path, log.positions())


def test_a_broker_that_forbids_to_read_ends_it_with_a_message(
    cluster_log: tuple[MockCluster, Log], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, log = cluster_log
    cluster.fail_next(ApiKey.LIST_OFFSETS, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 200)
    assert run_audit(log.settings(tmp_path)) == EXIT_FAILED
    assert "TOPIC_AUTHORIZATION_FAILED" in caplog.text


def test_a_disk_that_is_full_ends_it_with_a_message_and_nothing_is_lost(log: Log, tmp_path: Path) -> None:
    table = tmp_path / "audit"
    log.send_events(50)
    with SinkProcess(log, table, tmp_path, "cramped", "--file-limit-bytes", "200000") as cramped:
        wait_for_rows(table, 51)
        log.send(log.topics.dead_letter, random.Random(1).randbytes(500_000))
        log.send_events(50, first=50)
        assert cramped.process.wait(60) == EXIT_FAILED
        assert cramped.said("audit sink: OSError: ") or cramped.said("audit sink: DeltaError: ")
        assert cramped.said("File too large")
    with running_audit(log.settings(table, group="roomy")):
        wait_for_rows(table, 103)
    assert_each_once(table, log.positions())


def test_a_memory_table_serves_tests_of_what_is_built_on_it(log: Log, tmp_path: Path) -> None:
    log.send_one_of_each()
    table = MemoryAuditTable()
    with running_audit(log.settings(tmp_path), table=table):
        wait_until(lambda: len(table.rows) == len(one_of_each()), "all rows are there")
    assert {row["topic"] for row in table.rows} == set(log.topics.all)
    assert list(tmp_path.iterdir()) == []
