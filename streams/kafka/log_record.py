"""Records of a log, as the worker and the replay read them."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import Message

log = logging.getLogger(__name__)


class LogRecord(NamedTuple):
    """A record of a topic; a `RawRecord` of the worker."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Epoch milliseconds of the record; 0 if it has no time."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    """All headers, also those without a value, which the worker ignores."""


def record_of(message: Message) -> LogRecord:
    """Return the record of a message without an error; without headers if a name of them is not UTF-8."""
    kind, timestamp = message.timestamp()
    key, value = message.key(), message.value()
    return LogRecord(
        str(message.topic()),
        int(message.partition() or 0),
        int(message.offset() or 0),
        int(timestamp) if kind else 0,
        key.encode() if isinstance(key, str) else key,
        value.encode() if isinstance(value, str) else value,
        tuple((str(name), text if isinstance(text, bytes) else None) for name, text in headers_of(message)),
    )


def headers_of(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """Return a record's headers; none if a header's name is not UTF-8.

    A producer must not be able to crash the readers with such a record.
    """
    try:
        return message.headers() or ()
    except SystemError:  # raised by confluent-kafka in this case
        log.warning("%s partition %d: headers at offset %d are not UTF-8, and left out",
                    message.topic(), message.partition(), message.offset())  # fmt: skip
        return ()
