"""Conversion between bytes and models."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import orjson
from pydantic import ValidationError

from haltline.schemas import cloudevents, otel
from haltline.schemas.control import Command, ControlRecord, Feedback
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Detection
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.policy import Policy
from haltline.schemas.problems import problem_of
from haltline.schemas.record import JsonObject, Record
from haltline.schemas.signals import Signal

try:
    from haltline.schemas import native
except ModuleNotFoundError:  # msgspec is installed with the processor only; agents read no events
    native = None  # type: ignore[assignment]  # checked at each use

VERSION = 1
"""The version of every record that is written."""

MAX_EVENT_BYTES = 1024 * 1024
"""A larger record is not parsed, because that would delay every other session of its partition."""

MODELS: dict[str, type[Record]] = {
    "actions": ActionEvent,
    "detections": Detection,
    "interventions": Decision,
    "feedback": Feedback,
    "incidents": IncidentRecord,
    "notifications": NotificationRecord,
    "commands": Command,
    "signals": Signal,
    "control": ControlRecord,
    "policies": Policy,
    "dead-letter": DeadLetter,
}
"""The model of each topic's records, by the topic's name without the prefix."""

Headers = Sequence[tuple[str, bytes | None]]
_R = TypeVar("_R", bound=Record)


class InvalidRecord(Exception):
    """A record that cannot be used: the kind of problem, with what was expected and received."""

    def __init__(self, reason: BadRecord, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail[:2000]


def decode_event(value: bytes | None, headers: Headers = ()) -> ActionEvent:
    """Decode one record of the `actions` topic: native JSON, a CloudEvent or an OTel span.

    Raises:
        InvalidRecord: it is none of these, or fields are missing or of the wrong type.

    """
    converted = _foreign(value, headers) if headers else None
    if converted is not None:
        value = converted
    if native is not None and value and len(value) <= MAX_EVENT_BYTES:
        event = native.read(value)
        if event is not None:
            return event
    return decode(ActionEvent, value)


def decode(model: type[_R], value: bytes | None) -> _R:
    """Decode one JSON record as `model`.

    Raises:
        InvalidRecord: empty, too large, not JSON, of an unknown version, or not valid for the model.

    """
    if not value:
        raise InvalidRecord(BadRecord.EMPTY, "expected a JSON object, got no value")
    if len(value) > MAX_EVENT_BYTES:
        raise InvalidRecord(BadRecord.TOO_LARGE, f"expected at most {MAX_EVENT_BYTES} bytes, got {len(value)}")
    try:
        record = model.__pydantic_validator__.validate_json(value)
    except ValidationError as error:
        raise _located(error, value) from None
    if b"NaN" in value or b"Inf" in value:
        _require_strict(value)
    version = getattr(record, "v", VERSION)
    if version != VERSION:
        raise InvalidRecord(BadRecord.UNKNOWN_VERSION, f"v: expected {VERSION}, got {version}")
    return record  # type: ignore[no-any-return]  # the validator of a model is untyped and returns that model


def _require_strict(value: bytes) -> None:
    """Reject NaN and Infinity, which pydantic accepts where any value is allowed and other JSON readers do not."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InvalidRecord(BadRecord.NOT_JSON, str(error)) from None


def _located(error: ValidationError, value: bytes) -> InvalidRecord:
    """The error with its place in the record, what was expected and what was received; never the whole input."""
    problem = problem_of(error)
    if problem.kind == "json_invalid":
        return InvalidRecord(BadRecord.NOT_JSON, problem.message)
    version = _claimed_version(value)
    if version is not None and version != VERSION:
        return InvalidRecord(BadRecord.UNKNOWN_VERSION, f"v: expected {VERSION}, got {version!r}")
    return InvalidRecord(BadRecord.INVALID, str(problem))


def _claimed_version(value: bytes) -> object:
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return fields.get("v", VERSION) if isinstance(fields, dict) else None


def _foreign(value: bytes | None, headers: Headers) -> bytes | None:
    """Convert an event in another format to native JSON; None: it is native already."""
    by_name = {name.lower(): text for name, text in headers if text is not None}
    content_type = by_name.get("content-type", b"").decode(errors="replace").lower()
    kind = content_type.partition(";")[0].strip()
    cloudevent = kind.startswith("application/cloudevents")
    if not cloudevent and "ce_specversion" not in by_name and kind != otel.CONTENT_TYPE:
        return None
    if not value:
        raise InvalidRecord(BadRecord.EMPTY, "expected an event, got no value")
    if len(value) > MAX_EVENT_BYTES:
        raise InvalidRecord(BadRecord.TOO_LARGE, f"expected at most {MAX_EVENT_BYTES} bytes, got {len(value)}")
    if cloudevent and kind != cloudevents.STRUCTURED:
        raise InvalidRecord(
            BadRecord.UNKNOWN_FORMAT, f"expected {cloudevents.STRUCTURED}, got content type {kind!r:.80}"
        )
    try:
        return orjson.dumps(_fields(kind, by_name, value))
    except orjson.JSONDecodeError as error:
        raise InvalidRecord(BadRecord.NOT_JSON, str(error)) from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        # A producer's object of any shape: missing or wrong parts show where they are used.
        raise InvalidRecord(BadRecord.INVALID, f"{kind or 'CloudEvent'}: {type(error).__name__}: {error}") from None


def _fields(kind: str, headers: Mapping[str, bytes], value: bytes) -> JsonObject:
    if kind == cloudevents.STRUCTURED:
        return cloudevents.from_structured(value)
    if kind == otel.CONTENT_TYPE:
        return otel.from_span(value)
    return cloudevents.from_binary(headers, value)


def json_schemas() -> dict[str, JsonObject]:
    """The JSON Schema of every record, by topic name."""
    return {topic: model.model_json_schema(mode="validation") for topic, model in MODELS.items()}


def header(headers: Iterable[tuple[str, bytes | None]], name: str) -> str | None:
    """The text of a header, or None."""
    return next((text.decode(errors="replace") for key, text in headers if key == name and text is not None), None)
