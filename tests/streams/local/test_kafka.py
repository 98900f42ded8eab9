import os
import signal
import socket
import stat
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from haltline.schemas.topics import Topics
from haltline.streams.kafka.topics import create_topics
from haltline.streams.local import kafka_jars
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka, free_port
from haltline.streams.local.kafka_jars import LocalKafkaError, fetch
from haltline.streams.local.subprocesses import Children
from tests.conftest import require_kafka
from tests.waiting import wait_until


@pytest.mark.kafka
def test_a_record_survives_a_crash_that_is_reported_and_the_command_on_another_port_keeps_it(tmp_path: Path) -> None:
    require_kafka()
    with LocalKafka(tmp_path) as node:
        reports = create_topics(
            AdminClient({"bootstrap.servers": node.bootstrap}), Topics(), partitions=1, replication=1
        )
        assert all(report.ok for report in reports)
        _produce(node.bootstrap, Topics().actions, b"kept")
        os.kill(node.pid, signal.SIGKILL)
        with pytest.raises(LocalKafkaError, match=r"ended with status -9(.|\n)*kafka\.log"):
            node.wait()
    port = free_port()
    with Children(tmp_path / "command") as children:
        words = ["kafka", "--data", str(tmp_path), "--port", str(port)]
        command = children.start_module("command", "haltline.cli", words)
        output = command.log_file.read_text
        wait_until(lambda: "stops it" in output(), "the command says how to stop", deadline_s=120)
        assert _read_first(f"127.0.0.1:{port}", Topics().actions) == b"kept"
        assert command.stop(within_s=90) == 0
    assert f"Kafka answers at 127.0.0.1:{port}" in output()
    assert output().endswith("Kafka is stopped.\n")


def test_a_folder_or_a_port_in_use_is_named_and_nothing_is_harmed(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    with pytest.raises(LocalKafkaError, match=rf"expected port {kafka.port} of 127\.0\.0\.1 free, got one in use"):
        LocalKafka(tmp_path, kafka.port).start()
    with pytest.raises(LocalKafkaError, match=r"expected the data folder .* for itself, got another Kafka"):
        LocalKafka(kafka.data_dir).start()
    record = os.urandom(12 * 1024 * 1024)  # as large as the dead letter topic allows
    _produce(kafka.bootstrap, kafka_topics.dead_letter, record)
    assert _read_first(kafka.bootstrap, kafka_topics.dead_letter) == record
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert admin.list_topics("mistyped", timeout=10).topics["mistyped"].error is not None, "none is made by asking"


def test_what_is_not_started_or_cannot_be_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = LocalKafka(tmp_path, 1234)
    for use in (node.stop, node.kill, node.wait, lambda: node.pid):
        with pytest.raises(LocalKafkaError, match=r"Kafka at 127\.0\.0\.1:1234: expected one that was started"):
            use()
    monkeypatch.setattr(kafka_jars, "_jars_folder", lambda _pom=None: tmp_path / "cache" / "jars")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalKafkaError, match=r"expected java \(17 or newer.*\) and mvn .* no such command on PATH"):
        fetch()
    for command, script in {"java": "exit 0", "mvn": "echo no route to repository; exit 7"}.items():
        file = tmp_path / "bin" / command
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    with pytest.raises(LocalKafkaError, match=r"status 7:\n  no route to repository"):
        fetch()
    assert list((tmp_path / "cache").iterdir()) == []
    (tmp_path / "bin" / "java").write_text('#!/bin/sh\ncase "$*" in *StorageTool*) ;; *) echo version; exit 1;; esac\n')
    with pytest.raises(LocalKafkaError, match=r"got its end with status 1\.(.|\n)*kafka\.log(.|\n)*version"):
        LocalKafka(tmp_path / "data", jars=tmp_path / "jars").start()


def _produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 16 * 1024 * 1024})
    errors: list[object] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def _read_first(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    record = consumer.poll(30)
    consumer.close()
    assert record is not None
    assert record.error() is None
    return record.value()


def test_ends_when_the_block_ends_and_knows_no_other_one() -> None:
    with EmbeddedBroker() as broker, EmbeddedBroker() as other:
        broker.ensure_topic("only-here")
        assert AdminClient({"bootstrap.servers": other.bootstrap}).list_topics(timeout=10).topics == {}
        host, port = broker.bootstrap.split(":")
        assert host == "127.0.0.1", "it listens on loopback only"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
    broker.close()  # a second time is fine
    with pytest.raises(RuntimeError, match=r"asked for topic haltline\.actions after it was closed"):
        broker.ensure_topics(Topics())
