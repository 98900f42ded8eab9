import json
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.schemas.record import Record
from haltline.schemas.wire import MODELS, InvalidRecord, decode, decode_event

texts = st.text(st.characters(codec="utf-8"), max_size=20)
plain = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))

NAMED = {"event_id": "e", "kind": "action.completed", "session_id": "s", "time": 1_750_000_000_000}
EVENT: dict[str, Any] = {**NAMED, "args": {"asset_id": "fact_sales"}, "usage": {"cost_usd": 0.1}}
NANOS = {"startTimeUnixNano": "1750000000000000000", "endTimeUnixNano": "1750000000000000000"}
TOOL = {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}
SPAN: dict[str, Any] = {"traceId": "a", "spanId": "b", "status": {"code": 2}, "attributes": [TOOL], **NANOS}
ATTRIBUTES = {"id": "e", "type": "action.proposed", "source": "a", "subject": "s", "time": "2025-06-16T12:00:00Z"}
CLOUD_EVENT: dict[str, Any] = {**ATTRIBUTES, "data": {"action": "x"}, "data_base64": "e30="}
FORMATS = {
    b"application/json": EVENT,
    b"application/cloudevents+json": CLOUD_EVENT,
    b"application/vnd.opentelemetry.span+json": SPAN,
}


def changed(base: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """`base` with some fields replaced by anything, left out or added."""
    replaced = st.dictionaries(st.sampled_from([*base, "unknown"]), values, max_size=3)
    left_out = st.sets(st.sampled_from(list(base)), max_size=2)
    return st.builds(lambda new, out: {k: v for k, v in (base | new).items() if k not in out}, replaced, left_out)


def fields_of(topic: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with the fields of a topic's model, and any values."""
    return st.dictionaries(st.sampled_from(sorted(MODELS[topic].model_fields)), values, max_size=8)


def python_json(value: object) -> bytes:
    """Encoded by Python's own json: with NaN, Infinity and numbers of any length."""
    return json.dumps(value).encode()


@given(value=st.binary(), data=st.data())
@settings(max_examples=25)
@pytest.mark.parametrize("topic", MODELS)
def test_any_bytes_and_any_fields_are_read_or_refused(topic: str, value: bytes, data: st.DataObject) -> None:
    for written in (value, python_json(data.draw(fields_of(topic)))):
        with suppress(InvalidRecord):
            read_again(decode(MODELS[topic], written))


names = st.sampled_from(["content-type", "ce_specversion", "ce_id", "ce_type", "ce_time", "x"])
header_values = st.none() | st.binary() | st.sampled_from(sorted(FORMATS))


@given(data=st.data(), headers=st.lists(st.tuples(names, header_values), max_size=4))
@settings(max_examples=25)
@pytest.mark.parametrize("content_type", FORMATS)
def test_any_format_with_arbitrary_headers_is_read_or_refused(
    content_type: bytes, data: st.DataObject, headers: list[tuple[str, bytes | None]]
) -> None:
    value = data.draw(st.binary() | changed(FORMATS[content_type]).map(python_json) | values.map(python_json))
    with suppress(InvalidRecord):
        read_again(decode_event(value, [*headers, ("content-type", content_type)]))


def read_again(record: Record) -> None:
    """Check that a decoded record is written as standard JSON, and is equal when decoded again."""
    written = record.to_json()
    orjson.loads(written)
    again = decode(type(record), written)
    # An unknown field that is null is not written: it says the same as no field.
    assert again.model_dump(exclude_none=True) == record.model_dump(exclude_none=True)
    assert again.to_json() == written
