"""What could not be read: kept whole, with the reason beside it."""

from enum import StrEnum

from pydantic import ConfigDict

from haltline.schemas.record import Record, Text


class BadRecord(StrEnum):
    """Why a record could not be used."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    INVALID = "invalid"
    """JSON, but fields are missing or of the wrong type."""
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_FORMAT = "unknown_format"
    """A content type that is not read here."""
    WRONG_KEY = "wrong_key"
    """Not keyed by its session id, so its partition does not hold the session's state."""
    DETECTOR_FAILED = "detector_failed"
    """A detector raised on it; the other detectors did see it."""


class DeadLetter(Record):
    """A record of the dead letter topic.

    On the topic, `raw` is the record's value, untouched and of any size; all else are headers.
    """

    # As JSON, say for a person to read, bytes that need not be UTF-8 are Base64.
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    reason: BadRecord
    detail: Text
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None = None
    raw: bytes | None = None

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers on the topic."""
        return [
            ("haltline-reason", self.reason.value.encode()),
            ("haltline-detail", self.detail.encode()),
            ("haltline-topic", self.topic.encode()),
            ("haltline-partition", str(self.partition).encode()),
            ("haltline-offset", str(self.offset).encode()),
            ("haltline-timestamp-ms", str(self.timestamp_ms).encode()),
        ]

    @classmethod
    def from_record(cls, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> "DeadLetter":
        """Reads one back from the topic.

        Raises:
            KeyError: a header is missing: this record was not written by haltline.

        """
        by_name = {name: text.decode() for name, text in headers if name.startswith("haltline-")}
        return cls(
            reason=BadRecord(by_name["haltline-reason"]),
            detail=by_name["haltline-detail"],
            topic=by_name["haltline-topic"],
            partition=int(by_name["haltline-partition"]),
            offset=int(by_name["haltline-offset"]),
            timestamp_ms=int(by_name["haltline-timestamp-ms"]),
            key=key,
            raw=value,
        )
