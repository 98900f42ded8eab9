"""Whether the topics with a prefix are in use: earlier releases could move to topics with more partitions."""

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import TopicPartition

from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.log_reader import NoSuchTopic, bounds, open_consumer, partitions_of, read_partition


class TopicsGrown(KnownFailure):
    """Topics with another prefix are in use."""


def topics_in_use(bootstrap: str, prefix: str, *, client: Mapping[str, ClientSetting] | None = None) -> Topics:
    """Return the topics with this prefix. Raises TopicsGrown, Unreachable."""
    topics, entry = Topics(prefix), None
    with closing(open_consumer(bootstrap, client=client)) as consumer:
        try:
            count = len(partitions_of(consumer, topics.control))
        except NoSuchTopic:
            return topics
        place = TopicPartition(topics.control, partition_of(SETS_KEY.decode(), count))
        for record in read_partition(consumer, place, *bounds(consumer, place)):
            entry = record.value if record.key == SETS_KEY else entry
    if why := topics.grown(entry):
        raise TopicsGrown(why)
    return topics
