"""Each record once, with a real Kafka, a real Delta table and processes that are killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    NewTopic,
)

from haltline.schemas.keys import make_keys
from haltline.schemas.topics import Topics
from haltline.streams.audit.run import EXIT_FAILED, EXIT_OK, run_audit
from haltline.streams.local.kafka import LocalKafka
from tests.streams.audit.log import Log, assert_each_once, assert_proved, audited, rows_of, wait_for_rows
from tests.waiting import wait_until


@contextmanager
def sink(log: Log, table: Path, key: Path, instance: str) -> Iterator[subprocess.Popen[bytes]]:
    arguments = (log.bootstrap, log.topics.prefix, str(table), str(key), instance)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.streams.audit.sink_process", *arguments], cwd=Path(__file__).parents[3]
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stop(process: "subprocess.Popen[bytes]") -> int:
    process.terminate()
    return process.wait(60)


def test_each_record_is_there_once_through_a_kill_and_rebalances_and_another_topic_of_the_name_is_refused(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, key = tmp_path / "audit", tmp_path / "key.pem"
    public = make_keys(key)
    with ExitStack() as stack:
        log = stack.enter_context(Log(kafka.bootstrap, kafka_topics))
        log.send_events(1000)
        killed = stack.enter_context(sink(log, table, key, "one"))
        wait_until(lambda: rows_of(table), "it has begun to write", deadline_s=60)
        killed.send_signal(signal.SIGKILL)
        assert killed.wait(60) == -signal.SIGKILL
        assert_proved(table, public)
        largest = b"x" * (12 * 1024 * 1024)
        log.send(log.topics.dead_letter, largest, key=b"42", headers=[("haltline-reason", b"too_large")])
        heir = stack.enter_context(sink(log, table, key, "one"))  # so nobody waits for the killed one's session to end
        wait_for_rows(table, 1021)
        other = stack.enter_context(sink(log, table, key, "other"))
        wait_until(lambda: len(log.members("haltline-audit")) == 2, "both are in the group", deadline_s=60)
        log.send_events(1000, first=1000)
        wait_for_rows(table, 2041)
        assert stop(heir) == EXIT_OK
        log.send_events(1000, first=2000)
        wait_for_rows(table, 3061)  # the other one has waited for the session's end, and has every partition
        assert stop(other) == EXIT_OK
        assert_each_once(table, log.positions(), public)
        assert log.committed("haltline-audit") == {
            (topic, partition): offset + 1 for topic, partition, offset in sorted(audited(table))
        }

        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        admin.delete_topics([log.topics.actions])[log.topics.actions].result(30)
        wait_until(lambda: log.topics.actions not in admin.list_topics(timeout=10).topics, "the topic is gone")
        admin.create_topics([NewTopic(log.topics.actions, 4, 1)])[log.topics.actions].result(30)
        again = stack.enter_context(Log(log.bootstrap, log.topics))  # a producer that never saw the former topic
        again.send_events(4000)
        assert run_audit(again.settings(table)) == EXIT_FAILED
        assert f"audit#{log.topics.actions}: expected" in caplog.text
        assert rows_of(table) == 3061
