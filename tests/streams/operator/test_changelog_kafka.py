"""The way back to a release before claims, on a real Kafka: its records count again behind a release marker."""

from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from haltline.cli.common import Exit
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.engine.session_state import SessionState
from haltline.streams.kafka.log_record import record_of
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.runtime.changelog import CLAIM_KEY, EPOCH_HEADER, Epoch, PartitionState
from haltline.streams.sessions import state_codec
from tests.conftest import PARTITIONS, changelog_of
from tests.streams.broker_log import Log
from tests.streams.commands import haltline
from tests.waiting import wait_until

SESSION = "s1"
HOME = partition_of(SESSION, PARTITIONS)


def read(log: Log, changelog: str) -> PartitionState:
    """The session's partition, as a worker reads it."""
    states = PartitionState(HOME)
    states.apply(record_of(message) for message in log.records(changelog) if message.partition() == HOME)
    return states


def test_a_release_marker_lets_the_records_of_an_older_release_count_and_is_refused_while_workers_run(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bootstrap, group, changelog = kafka.bootstrap, kafka_topics.prefix.removesuffix("."), changelog_of(kafka_topics)
    log = Log(bootstrap)
    request.addfinalizer(log.close)
    release = ("changelog", "release", "--bootstrap", bootstrap, "--prefix", kafka_topics.prefix, "--json")
    with Children(tmp_path) as children:
        wait_until_ready(children, start_worker(children, bootstrap, "--prefix", kafka_topics.prefix, embedded=False))
        refused = haltline(*release)
        assert refused.exit_code == Exit.NO
        assert f"group {group}: expected no members, got" in refused.stderr
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def gone() -> bool:
        (answer,) = admin.describe_consumer_groups([group], request_timeout=30).values()
        return not answer.result().members

    wait_until(gone, "the group has no members")
    producer = Producer({"bootstrap.servers": bootstrap})
    state, headers = state_codec.encode(SessionState(SESSION)), [(EPOCH_HEADER, Epoch(5, 5).encode())]
    producer.produce(changelog, key=SESSION.encode(), value=state, partition=HOME, headers=dict(headers))
    assert producer.flush(10) == 0
    end = log.ends(changelog)[HOME]
    assert read(log, changelog).older_release == end - 1
    done = haltline(*release)
    assert done.exit_code == Exit.OK, done.output
    markers = orjson.loads(done.stdout)
    assert len(markers) == 2 * PARTITIONS
    assert {"topic": changelog, "partition": HOME, "offset": end} in markers
    (written,) = [one for one in log.records(changelog) if (one.partition(), one.offset()) == (HOME, end)]
    assert (written.key(), written.value()) == (CLAIM_KEY, None)
    found = read(log, changelog)
    assert (found.older_release, found.values) == (None, {SESSION.encode(): state})
