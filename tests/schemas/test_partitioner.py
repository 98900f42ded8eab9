import random

from aiokafka.partitioner import murmur2 as aiokafka_murmur2  # type: ignore[import-untyped]  # it has no types
from confluent_kafka import KafkaError, Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.partitioner import murmur2, partition_of
from haltline.streams.local.embedded_broker import PARTITIONS, EmbeddedBroker

ODD = ["ü", "日本語", "\U0001f600", "a\u0301", " ", "\0", "\0\0\0\0", "\n", "-1", '"', "\x7f", "\u0080"]
_random = random.Random(7)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_:"
OF_EVERY_LENGTH = ["".join(_random.choices(LETTERS, k=length)) for length in range(1, 41) for _ in range(8)]
KEYS = [*ODD, *OF_EVERY_LENGTH, "s" * 256]


def partitions_of_librdkafka(keys: list[str]) -> dict[str, int]:
    """The partition on which librdkafka put a record of each key."""
    found: dict[str, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key, partition = message.key(), message.partition()
        assert key is not None
        assert partition is not None
        found[key.decode() if isinstance(key, bytes) else key] = partition

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
        for key in keys:
            producer.produce("t", key=key.encode(), value=b"x", on_delivery=delivered)
        assert producer.flush(30) == 0
    return found


def test_a_record_is_where_we_say_when_librdkafka_produces_it() -> None:
    expected = {key: partition_of(key, PARTITIONS) for key in KEYS}
    assert set(expected.values()) == set(range(PARTITIONS))
    assert partitions_of_librdkafka(KEYS) == expected


@given(key=st.text(st.characters(codec="utf-8"), min_size=1, max_size=256), partitions=st.integers(1, 1000))
def test_a_partition_is_the_same_as_aiokafkas_for_any_number_of_partitions(key: str, partitions: int) -> None:
    assert murmur2(key.encode()) == aiokafka_murmur2(key.encode()) & 0xFFFFFFFF
    assert partition_of(key, partitions) == (aiokafka_murmur2(key.encode()) & 0x7FFFFFFF) % partitions
