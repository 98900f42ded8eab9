"""A session's last events, read back from its partition on request."""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Final

from confluent_kafka import TopicPartition

from haltline.schemas.events import ActionEvent
from haltline.schemas.wire import InvalidRecord, decode_event
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import bounds, open_consumer, read_partition

LOOK_BACK: Final = 4000
"""The most records read of the partition, of all its sessions."""


def last_events(
    bootstrap: str,
    last: TopicPartition,
    session_id: str,
    most: int,
    *,
    client: Mapping[str, ClientSetting],
    within_s: float,
) -> list[ActionEvent]:
    """Return the last events of a session up to the one at `last`, oldest first.

    They are fewer if records no longer exist, or were not read in time. Raises Unreachable and KafkaException.
    """
    events: deque[ActionEvent] = deque(maxlen=most)
    key, until_s = session_id.encode(), time.monotonic() + within_s
    with closing(open_consumer(bootstrap, client=client)) as consumer:
        low, _ = bounds(consumer, last)
        begin = max(low, last.offset - LOOK_BACK + 1)
        for record in read_partition(consumer, last, begin, last.offset + 1, until_s=until_s):
            if record.key != key:
                continue
            with suppress(InvalidRecord):  # already a dead letter
                events.append(decode_event(record.value, record.headers))
    return list(events)
