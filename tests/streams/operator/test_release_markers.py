"""Release markers on a real Kafka: refused beside workers; with them, records of an older release count again."""

import orjson
from confluent_kafka import Consumer, Producer

from haltline.cli.common import Exit
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_record import record_of
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.runtime.changelog import CLAIM_KEY, EPOCH_HEADER, Claim, Epoch, PartitionState
from tests.conftest import PARTITIONS, changelog_of
from tests.streams.commands import haltline
from tests.streams.counting import Log

HOME = 1


def test_a_release_marker_lets_the_records_of_an_older_release_count(kafka: LocalKafka, kafka_topics: Topics) -> None:
    name, log = changelog_of(kafka_topics), Log(kafka.bootstrap)
    claim = Claim(b"c" * 16)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(name, key=claim.key, value=None, partition=HOME, headers=list(claim.headers))
    producer.produce(name, key=b"s", value=b"1", partition=HOME, headers=[(EPOCH_HEADER, Epoch(5, 5).encode())])
    assert producer.flush(10) == 0

    def older_release() -> int | None:
        part = PartitionState(HOME)
        part.apply(record_of(message) for message in log.records(name) if message.partition() == HOME)
        return part.older_release

    words = ("changelog", "release", "--bootstrap", kafka.bootstrap, "--prefix", kafka_topics.prefix)
    assert older_release() == 1
    group = kafka_topics.prefix.removesuffix(".")
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    member.subscribe([kafka_topics.actions])
    try:
        while not member.assignment():
            member.poll(0.1)
        refused = haltline(*words)
    finally:
        member.close()
    assert (refused.exit_code, f"group {group}: expected no members, got" in refused.stderr) == (Exit.NO, True)

    markers = orjson.loads(haltline(*words, "--json").stdout)
    assert len(markers) == 2 * PARTITIONS
    assert {"topic": name, "partition": HOME, "offset": 2} in markers
    (written,) = [one for one in log.records(name) if (one.partition(), one.offset()) == (HOME, 2)]
    assert (written.key(), written.value()) == (CLAIM_KEY, None)
    assert older_release() is None
    log.close()
