"""The base of all records on topics."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

EARLIEST_MS = 946_684_800_000  # 2000-01-01; an earlier time comes from an unset clock
LATEST_MS = 4_102_444_800_000  # 2100-01-01; a later time is an error and would close every window


def epoch_ms(value: object) -> int:
    """Epoch milliseconds of an RFC 3339 text or of a number of milliseconds.

    Raises:
        ValueError: not a time, a time without an offset, or one outside 2000 to 2100.

    """
    if type(value) is int:
        time_ms = value
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"expected an RFC 3339 time such as 2025-06-16T12:00:00Z, got {value!r:.80}") from error
        if moment.tzinfo is None:
            raise ValueError(f"expected an RFC 3339 time with an offset such as Z, got {value!r}")
        time_ms = round(moment.timestamp() * 1000)
    else:
        raise ValueError(f"expected an RFC 3339 text or whole epoch milliseconds, got {value!r:.80}")
    if not EARLIEST_MS <= time_ms < LATEST_MS:
        raise ValueError(f"expected a time from 2000 to 2100 in epoch milliseconds, got {value!r:.80}")
    return time_ms


AS_EPOCH, AS_MOMENT = "epoch_ms", "moment"
"""The two parsers of a time; pydantic adds the name to the error's location, after the field."""


class _Moment:
    """The validator of times. It checks whole milliseconds without a Python call."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        whole = core_schema.int_schema(strict=True, ge=EARLIEST_MS, lt=LATEST_MS)
        other = core_schema.no_info_plain_validator_function(epoch_ms)
        return core_schema.union_schema([(whole, AS_EPOCH), (other, AS_MOMENT)], mode="left_to_right")

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(core_schema.union_schema([core_schema.int_schema(), core_schema.str_schema()]))


EpochMs = Annotated[int, _Moment]
"""A moment in epoch milliseconds, UTC; RFC 3339 text is read too."""

Id = Annotated[str, Field(min_length=1, max_length=256)]
"""An identifier: 1 to 256 characters."""

Name = Annotated[str, Field(max_length=512)]
"""A producer's short text, such as a tool name."""

Text = Annotated[str, Field(max_length=16_384)]
"""A human-readable text, such as a reason."""

Values = dict[str, float | int | str]
"""Measured values or thresholds by name, units in the name."""


class Record(BaseModel):
    """A value on a topic. Unknown fields are kept, so an older reader loses nothing."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, ser_json_inf_nan="null")

    def to_json(self) -> bytes:
        """The record as one line of JSON, without fields that are None."""
        return self.__pydantic_serializer__.to_json(self, exclude_none=True)


class Part(BaseModel):
    """A part of a document that people write: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_R = TypeVar("_R", bound=Record)


def trusting(model: type[_R]) -> Callable[[dict[str, Any]], _R]:
    """Return a function that makes records from values that are known to be valid, without pydantic's costly checks.

    Its argument is a dict with every field of the model, which becomes the record's own. Each field counts as set.
    """
    new, slots = object.__new__, vars(BaseModel)
    put_fields, put_names = slots["__dict__"].__set__, slots["__pydantic_fields_set__"].__set__
    put_extra, put_private = slots["__pydantic_extra__"].__set__, slots["__pydantic_private__"].__set__
    names = set(model.model_fields)  # shared by all records, which are frozen

    def make(fields: dict[str, Any]) -> _R:
        record = new(model)
        put_fields(record, fields)
        put_names(record, names)
        put_extra(record, {})
        put_private(record, None)
        return record

    return make


def rfc3339(time_ms: int) -> str:
    """The human-readable time in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


JsonObject = dict[str, Any]

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def canonical_json(value: object) -> bytes:
    """One line of JSON with sorted keys, for digests and truncated texts: equal for equal values."""
    try:
        return orjson.dumps(value, option=_CANONICAL)
    except TypeError:  # JSON allows integers of more than 64 bits; orjson does not write them
        return json.dumps(value, sort_keys=True, default=str).encode()
