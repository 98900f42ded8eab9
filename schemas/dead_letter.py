"""Records that could not be processed, kept unchanged with the reason."""

from collections.abc import Iterable
from enum import StrEnum
from itertools import takewhile
from typing import Final

from pydantic import ConfigDict

from haltline.schemas.record import Record, Text

_THEIRS: Final = "haltline-header-"
"""The prefix of the original record's header names, which keeps them apart from ours."""
_THEIRS_BYTES: Final = 64 * 1024
"""Headers beyond this total are left out: the dead letter must fit into its topic."""


class BadRecord(StrEnum):
    """Why a record could not be processed."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    INVALID = "invalid"
    """JSON, but fields are missing or of the wrong type."""
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_FORMAT = "unknown_format"
    """A content type that haltline does not read."""
    WRONG_KEY = "wrong_key"
    """The key is not the session id, so its partition does not hold the session's state."""
    DETECTOR_FAILED = "detector_failed"
    """A detector raised an exception on it; the other detectors processed it."""
    ENDED_WORKER = "ended_worker"
    """Each process that decided it ended: hung, killed by a signal, or out of memory. It was not processed."""
    UNREADABLE_STATE = "unreadable_state"
    """The stored state of a session, an agent, a target or a tree. It starts again empty."""
    UNDELIVERED = "undelivered"
    """A change of an incident that could not be sent to a channel."""
    UNREQUESTED = "unrequested"
    """Of earlier releases: a second opinion of a model that the session did not request."""


class DeadLetter(Record):
    """A record of the dead letter topic.

    On the topic, `raw` is the record's unchanged value of any size; all other fields are headers. With `record_headers`
    the record can be sent again as it was: a CloudEvent in binary form has its meaning there.
    """

    # Base64 only as JSON, for people: the bytes need not be UTF-8.
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    reason: BadRecord
    detail: Text
    topic: str
    partition: int
    offset: int
    """-1 for a state, whose offset in its topic is not known."""
    timestamp_ms: int
    key: bytes | None = None
    raw: bytes | None = None
    record_headers: tuple[tuple[str, bytes | None], ...] = ()
    """The headers of the original record, the first 64 KiB of them."""

    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers on the topic: its own, then those of the original record, with the prefix `haltline-header-`."""
        room = _THEIRS_BYTES

        def fits(header: tuple[str, bytes | None]) -> bool:
            nonlocal room
            room -= len(_THEIRS) + len(header[0].encode()) + len(header[1] or b"")
            return room >= 0

        return [
            ("haltline-reason", self.reason.value.encode()),
            ("haltline-detail", self.detail.encode()),
            ("haltline-topic", self.topic.encode()),
            ("haltline-partition", str(self.partition).encode()),
            ("haltline-offset", str(self.offset).encode()),
            ("haltline-timestamp-ms", str(self.timestamp_ms).encode()),
            *((_THEIRS + name, value) for name, value in takewhile(fits, self.record_headers)),
        ]

    @classmethod
    def from_record(
        cls, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> "DeadLetter":
        """Read a dead letter from the topic.

        Raises:
            KeyError: a header is missing: haltline did not write this record.

        """
        headers = list(headers)
        theirs = [(name.removeprefix(_THEIRS), data) for name, data in headers if name.startswith(_THEIRS)]
        by_name = {
            name: data.decode()
            for name, data in headers
            if name.startswith("haltline-") and not name.startswith(_THEIRS) and data is not None
        }
        return cls(
            reason=BadRecord(by_name["haltline-reason"]),
            detail=by_name["haltline-detail"],
            topic=by_name["haltline-topic"],
            partition=int(by_name["haltline-partition"]),
            offset=int(by_name["haltline-offset"]),
            timestamp_ms=int(by_name["haltline-timestamp-ms"]),
            key=key,
            raw=value,
            record_headers=tuple(theirs),
        )
