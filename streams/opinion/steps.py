"""A session's last events, read back from its partition on request."""

import time
from collections import deque
from collections.abc import Mapping
from typing import Final, cast

from confluent_kafka import KafkaError, TopicPartition

from haltline.schemas.events import ActionEvent
from haltline.schemas.wire import Headers, InvalidRecord, decode_event
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import bounds, open_consumer, passes

LOOK_BACK: Final = 4000
"""The most records read of the partition, of all its sessions."""
_POLL_S: Final = 0.1


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

    They are fewer if records no longer exist, or were not read in time. Raises Unreachable.
    """
    events: deque[ActionEvent] = deque(maxlen=most)
    key, until_s = session_id.encode(), time.monotonic() + within_s
    consumer = open_consumer(bootstrap, client=client)
    try:
        low, _ = bounds(consumer, last)
        consumer.assign([TopicPartition(last.topic, last.partition, max(low, last.offset - LOOK_BACK + 1))])
        while time.monotonic() < until_s:
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF or not passes(error):
                    break
                continue
            offset = int(message.offset() or 0)
            if offset <= last.offset and message.key() == key:
                try:
                    events.append(decode_event(message.value(), cast("Headers", message.headers() or ())))
                except InvalidRecord:  # already a dead letter
                    continue
            if offset >= last.offset:
                break
    finally:
        consumer.close()
    return list(events)
