"""Sets of topics with different numbers of partitions: which one is current, and records that are on two of them.

`haltline topics grow` creates a set with more partitions, copies the states to it, and names it in `control` of the set
before, under `SETS_KEY`. Guards that run stay on the set that they know:

- A bridge in the workers copies what is published to an older set into the next one. Each copy has the header `ORIGIN`.
  The place in it is the one that states remember, so that a record that was bridged twice counts once.
- The workers send decisions and entries of `control` to every set. Those on older sets have the header `COPY`.

Readers of all sets skip both kinds of copies, and so have each record once.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import NoSuchTopic, bounds, open_consumer, partitions_of, read_partition
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.system import REAL, System

ORIGIN: Final = "haltline-origin"
"""The header of a bridged record: the topic, partition and offset of the original, separated by spaces."""
COPY: Final = "haltline-copy"
"""The header of a record that the workers send to an older set too."""

Headers = Sequence[tuple[str, bytes | None]]


class Origin(NamedTuple):
    """The place of the original of a bridged record."""

    topic: str
    partition: int
    offset: int


def origin_of(headers: Headers, topics: Collection[str]) -> Origin | None:
    """Return the place of a bridged record's original; None if it is not of one of these topics."""
    for name, value in headers:
        if name == ORIGIN and value is not None:
            topic, _, place = value.decode(errors="replace").partition(" ")
            partition, _, offset = place.partition(" ")
            if topic in topics and partition.isdecimal() and offset.isdecimal():
                return Origin(topic, int(partition), int(offset))
    return None


def headers_of_copy(record: LogRecord, older: Collection[str] = ()) -> Headers:
    """Return the headers of a copy in the next set.

    The origin is kept if it is of one of the topics `older`: the record was copied before.
    """
    at = origin_of(record.headers, older) or record
    origin = f"{at.topic} {at.partition} {at.offset}".encode()
    return (*(header for header in record.headers if header[0] != ORIGIN), (ORIGIN, origin))


def is_copy(topic: str, headers: Headers, older: Collection[str]) -> bool:
    """Return whether a record is also on another set, where it counts. `older` are the topics of the older sets."""
    if not headers:
        return False
    return origin_of(headers, older) is not None or (topic in older and any(name == COPY for name, _ in headers))


def current_topics(
    bootstrap: str, prefix: str, *, client: Mapping[str, ClientSetting] | None = None, system: System = REAL
) -> Topics:
    """Return the topics that are in use where this prefix is configured. Raises Unreachable."""
    with closing(open_consumer(bootstrap, client=client, system=system)) as consumer:
        return followed(consumer, prefix, system=system)


def followed(consumer: Consumer, prefix: str, *, system: System = REAL) -> Topics:
    """Return the topics as `current_topics` does, with a consumer that is not assigned."""
    topics = Topics(prefix)
    while True:
        found = _entry(consumer, topics.control, system)
        if found is None or found.prefix == topics.prefix:
            return found or topics
        topics = found


def present(
    bootstrap: str, topics: Topics, *, client: Mapping[str, ClientSetting], system: System = REAL
) -> list[Topics]:
    """Return the sets that have not been removed, the oldest first. Raises Unreachable."""
    with closing(open_consumer(bootstrap, client=client, system=system)) as consumer:
        return [one for one in topics.sets if one.prefix == topics.prefix or _count(consumer, one.control)]


def _count(consumer: Consumer, topic: str) -> int:
    try:
        return len(partitions_of(consumer, topic))
    except NoSuchTopic:
        return 0


def _entry(consumer: Consumer, control: str, system: System) -> Topics | None:
    count = _count(consumer, control)
    if not count:
        return None
    place = TopicPartition(control, partition_of(SETS_KEY.decode(), count))
    value = None
    for record in read_partition(consumer, place, *bounds(consumer, place, system=system), system=system):
        if record.key == SETS_KEY:
            value = record.value
    return Topics.of_entry(value)
