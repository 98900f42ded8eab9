"""The partition of a key: the Java client's default, `murmur2_random` in librdkafka."""

from typing import Final

CONFIRMED: Final[dict[str, str | bool]] = {"partitioner": "murmur2_random", "acks": "all", "enable.idempotence": True}
"""librdkafka's settings of a producer with this partitioner, idempotent, in order and acknowledged by all replicas."""

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of `data`, with Kafka's seed; unsigned."""
    length = len(data)
    state = (_SEED ^ length) & _MASK
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        word = word * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ word
    if length & 3:
        state ^= int.from_bytes(data[whole:], "little")
        state = state * _MULTIPLIER & _MASK
    state ^= state >> 13
    state = state * _MULTIPLIER & _MASK
    return state ^ (state >> 15)


def partition_of(key: str, partitions: int) -> int:
    """The partition, from 0, of a key on a topic with this many partitions."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
