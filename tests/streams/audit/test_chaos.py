"""Each record once on a real Kafka: through kills, zombies, races, gaps, topics recreated and a broker's restart."""

import os
import random
import re
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from haltline.schemas.keys import make_keys
from haltline.schemas.topics import Topics
from haltline.streams.audit.query import open_query
from haltline.streams.audit.run import EXIT_FAILED, EXIT_OK, run_audit, running_audit
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import fetch
from tests.conftest import require_kafka
from tests.streams.audit.log import (
    QUIET,
    Log,
    SinkProcess,
    assert_each_once,
    assert_proved,
    audited,
    rows_of,
    wait_for_rows,
)
from tests.streams.audit.sink_process import Step
from tests.waiting import wait_until


@pytest.fixture
def log(kafka: LocalKafka, kafka_topics: Topics) -> Iterator[Log]:
    with Log(kafka.bootstrap, kafka_topics) as log:
        yield log


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def hit(step: Step, commit: int, number: signal.Signals) -> tuple[str, ...]:
    return ("--hit", step.value, str(commit), number.name)


def has_stopped(sink: SinkProcess) -> bool:
    """Whether the process stands still."""
    return os.waitid(os.P_PID, sink.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A private key and its public one."""
    return tmp_path / "key.pem", make_keys(tmp_path / "key.pem")


def test_a_sink_killed_at_each_step_of_a_commit_is_continued_and_the_chain_holds(
    log: Log, table: Path, tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    options = ("--signing-key", str(private), "--instance-id", "one")  # so nobody waits for the dead ones
    for number, step in enumerate(Step):
        log.send_events(600, first=number * 1200)
        dies = hit(step, 1 if step is Step.BEFORE_WRITE else 2, signal.SIGKILL)
        with SinkProcess(log, table, tmp_path, step.value, *options, *dies) as dying:
            log.send_events(600, first=number * 1200 + 600)  # more to write, whenever it has written what was there
            assert dying.process.wait(60) == -signal.SIGKILL
        if audited(table):
            assert_proved(table, public)
    with SinkProcess(log, table, tmp_path, "heir", *options) as heir:
        wait_for_rows(table, len(log.positions()))
        assert heir.stop() == EXIT_OK
    assert_each_once(table, log.positions(), public)
    assert assert_proved(table, public) > 4


@pytest.mark.parametrize("step", [Step.BEFORE_WRITE, Step.AFTER_ROWS, Step.AFTER_WRITE])
def test_a_zombie_that_wakes_after_another_took_over_writes_nothing_twice(
    log: Log, table: Path, tmp_path: Path, keys: tuple[Path, Path], step: Step
) -> None:
    private, public = keys
    log.send_events(2000)
    options = ("--signing-key", str(private))
    with ExitStack() as stack:
        stops = hit(step, 2, signal.SIGSTOP)
        zombie = stack.enter_context(SinkProcess(log, table, tmp_path, "zombie", *options, *stops))
        wait_until(lambda: has_stopped(zombie), "the zombie stands still in the middle of a commit")
        heir = stack.enter_context(SinkProcess(log, table, tmp_path, "heir", *options))
        log.send_events(1000, first=2000)
        wait_for_rows(table, 3060)  # so the heir has waited for the session timeout, and has every partition
        assert has_stopped(zombie)
        zombie.process.send_signal(signal.SIGCONT)
        log.send_events(1000, first=3000)
        wait_for_rows(table, 4080)
        log.send_events(500, first=4000)
        wait_for_rows(table, 4590)
        assert (zombie.stop(), heir.stop()) == (EXIT_OK, EXIT_OK)
    assert_each_once(table, log.positions(), public)
    if step is not Step.AFTER_WRITE:
        assert zombie.said("another sink wrote")


def test_sinks_that_are_killed_stopped_and_started_under_load_write_each_record_once(
    log: Log, table: Path, tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    options = ("--signing-key", str(private))
    dice = random.Random(4)
    sent = 0
    with ExitStack() as stack:
        sinks = [stack.enter_context(SinkProcess(log, table, tmp_path, f"sink-{n}", *options)) for n in range(2)]
        numbers = [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP] * 2
        dice.shuffle(numbers)
        for turn, number in enumerate(numbers):
            log.send_events(1000, first=sent)
            sent += 1000
            before = rows_of(table)
            wait_until(lambda before=before: rows_of(table) > before, "rows come", deadline_s=60)  # type: ignore[misc]  # of this turn
            victim = dice.randrange(len(sinks))
            sinks[victim].process.send_signal(number)
            if number == signal.SIGSTOP:
                wait_for_rows(table, sent * 51 // 50)  # the other one has taken over
                sinks[victim].process.send_signal(signal.SIGCONT)
            else:
                sinks[victim].process.wait(60)
                heir = SinkProcess(log, table, tmp_path, f"sink-{victim}-turn-{turn}", *options)
                sinks[victim] = stack.enter_context(heir)
        wait_for_rows(table, sent * 51 // 50)
        wait_until(lambda: all(sink.said("audit sink: reads") for sink in sinks), "the newest has begun", deadline_s=60)
        assert [sink.stop() for sink in sinks] == [EXIT_OK, EXIT_OK]
    assert_each_once(table, log.positions(), public)
    assert log.committed("haltline-audit") == {
        (topic, partition): offset + 1 for topic, partition, offset in _last(audited(table))
    }


def _last(positions: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    ends = {(topic, partition): offset for topic, partition, offset in positions}
    return [(topic, partition, offset) for (topic, partition), offset in ends.items()]


def test_gaps_of_compaction_and_of_aborted_transactions_are_gaps_and_no_losses(log: Log, table: Path) -> None:
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": uuid.uuid4().hex}, logger=QUIET)
    producer.init_transactions(30)
    expected = []
    for number in range(12):
        producer.begin_transaction()
        producer.produce(log.topics.actions, b"{}", partition=0)
        if number % 3:
            producer.flush(30)  # else it is never sent
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            expected.append((log.topics.actions, 0, number * 2))  # the end of a transaction is an offset too
    sent = _compact(log)
    with running_audit(log.settings(table)):
        wait_until(lambda: (log.topics.actions, 0, 18) in audited(table), "the last committed one is written")
        wait_until(lambda: log.topics.control in {p[0] for p in audited(table)}, "the compacted topic is written")
        log.send(log.topics.actions, b"{}")
        log.send(log.topics.control, b"{}", key=b"session:last")
        log.flush()
        wait_until(lambda: (log.topics.actions, 0, 24) in audited(table), "it goes on behind the gaps")
        wait_until(lambda: _keys(table).count("session:last") == 1, "it goes on behind what was compacted")
    actual = audited(table)
    assert [position for position in actual if position[0] == log.topics.actions] == [
        *expected,
        (log.topics.actions, 0, 24),
    ]
    offsets = [offset for topic, _, offset in actual if topic == log.topics.control]
    assert len(offsets) == len(set(offsets)) <= sent
    assert offsets[-1] == sent
    assert open_query(table).rows("SELECT count(*) AS n FROM audit WHERE kind = 'records.lost'") == [{"n": 0}]


def _keys(table: Path) -> list[str]:
    return [row["key"] for row in open_query(table).rows('SELECT "key" FROM audit')]


def _compact(log: Log) -> int:
    """Write to the control topic until the broker has dropped some of it; how many were written."""
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    eager = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in eager.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, log.topics.control, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)
    sent = 0

    def has_gaps() -> bool:
        nonlocal sent
        log.send(log.topics.control, b"{}", key=f"session:{sent % 4}".encode())
        log.flush()
        sent += 1
        return sent % 20 == 0 and log.count(log.topics.control, 0) < sent

    wait_until(has_gaps, "the broker has compacted the topic", deadline_s=120)
    return sent


def test_a_dead_letter_of_12_mb_is_kept_whole(log: Log, table: Path) -> None:
    raw = random.Random(1).randbytes(12 * 1024 * 1024)
    log.send(log.topics.dead_letter, raw, key=b"42", headers=[("haltline-reason", b"too_large")])
    log.flush()
    with running_audit(log.settings(table)):
        wait_for_rows(table, 1)
    (row,) = open_query(table).rows("SELECT raw FROM audit")
    assert row["raw"] == raw


def test_records_deleted_while_the_sink_stands_still_are_reported(log: Log, table: Path, tmp_path: Path) -> None:
    log.send_events(400)
    with SinkProcess(log, table, tmp_path, "sink", "--session-timeout-s", "45") as sink:
        wait_for_rows(table, 408)
        sink.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: has_stopped(sink), "it stands still")
        log.send_events(400, first=400)
        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        for deleted in admin.delete_records([TopicPartition(log.topics.actions, 0, 150)]).values():
            assert deleted.result(30).low_watermark == 150
        sink.process.send_signal(signal.SIGCONT)
        wait_until(lambda: sink.said(" to 149 were deleted"), "it tells what it lost")
        # A fetch that the broker held while the sink was stopped may have brought it the first of them.
        match = re.search(r"LOST (\d+) records: offsets (\d+) to 149", sink.log_file.read_text())
        assert match is not None
        count, first = int(match[1]), int(match[2])
        assert (first >= 100, count) == (True, 150 - first)
        wait_for_rows(table, 816 - count + 1)
        log.send_events(400, first=800)
        wait_for_rows(table, 816 - count + 1 + 408)
        assert sink.stop() == EXIT_OK
    lost = open_query(table).rows('SELECT "partition", "offset" FROM audit WHERE kind = \'records.lost\'')
    assert lost == [{"partition": 0, "offset": first}]
    assert len(audited(table)) == len(set(audited(table)))


def test_a_topic_that_was_recreated_is_refused_though_it_is_longer(
    log: Log, table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.send_events(100)
    with running_audit(log.settings(table)):
        wait_for_rows(table, 102)
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.delete_topics([log.topics.actions])[log.topics.actions].result(30)
    wait_until(lambda: log.topics.actions not in admin.list_topics(timeout=10).topics, "the topic is gone")
    wait_until(lambda: _made(admin, log.topics.actions), "the topic is there again")
    log.send_events(1000)
    assert run_audit(log.settings(table)) == EXIT_FAILED
    assert f"audit#{log.topics.actions}: expected" in caplog.text
    assert rows_of(table) == 102
    with running_audit(log.settings(table, sink="second", group="second")):
        wait_until(lambda: rows_of(table) == 102 + 2 + 1020, "another name reads it from its start")


def _made(admin: AdminClient, topic: str) -> bool:
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(30)
    return True


def test_a_topic_that_is_shorter_than_the_table_says_is_refused(
    log: Log, table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.send_events(10)
    with running_audit(log.settings(table)):
        wait_for_rows(table, 11)
    DeltaAuditTable(table).open().append([], {f"audit-{log.topics.actions}-0": 1000})
    assert run_audit(log.settings(table)) == EXIT_FAILED
    assert "expected a partition that goes on behind offset 1000" in caplog.text


def test_topics_that_appear_later_are_read_from_their_start(kafka: LocalKafka, table: Path) -> None:
    topics = Topics(prefix=f"t{uuid.uuid4().hex[:8]}.")
    log = Log(kafka.bootstrap, topics)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    try:
        _made(admin, topics.actions)
        with running_audit(log.settings(table)) as sink:
            wait_until(lambda: sink.assigned == 4, "the first topic is assigned")
            for name in set(topics.all) - {topics.actions}:
                _made(admin, name)
            log.send_one_of_each()
            wait_for_rows(table, 9)
        assert_each_once(table, log.positions())
    finally:
        for deleted in admin.delete_topics(list(topics.all)).values():
            deleted.exception(30)


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[LocalKafka]:
    """A Kafka that this test may stop."""
    require_kafka()
    with LocalKafka(tmp_path / "kafka", jars=fetch()) as node:
        yield node


@pytest.mark.kafka
def test_a_broker_that_restarts_is_waited_for(own_kafka: LocalKafka, table: Path, tmp_path: Path) -> None:
    topics = Topics()
    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
    for name in topics.all:
        _made(admin, name)
    log = Log(own_kafka.bootstrap, topics)
    log.send_events(1000)
    with SinkProcess(log, table, tmp_path, "sink") as sink:
        wait_for_rows(table, 500)
        own_kafka.stop()
        own_kafka.start()
        log.send_events(1000, first=1000)
        wait_for_rows(table, 2040)
        assert sink.stop() == EXIT_OK
    assert_each_once(table, log.positions())
