"""CloudEvents over Kafka, binary and structured, read as ActionEvents.

An event's `data` is an ActionEvent in whole or in part. What it leaves out is taken from
the CloudEvents attributes: `id` for `event_id`, `type` for `kind` (a prefix before the
known kinds, such as `com.example.`, is cut off), `subject` for `session_id`, `source`
for `agent_id`, `time` for `time`.
"""

from base64 import b64decode
from collections.abc import Mapping

import orjson

from haltline.schemas.events import Kind
from haltline.schemas.record import JsonObject

STRUCTURED = "application/cloudevents+json"
_ATTRIBUTES = {"id": "event_id", "subject": "session_id", "source": "agent_id", "time": "time"}


def from_structured(value: bytes) -> JsonObject:
    """The fields of an ActionEvent from one structured CloudEvent.

    Raises:
        ValueError: not JSON, or `data` is not an object.
        TypeError: `data_base64` is not a string.

    """
    event = orjson.loads(value)
    if not isinstance(event, dict):
        raise ValueError(f"expected a CloudEvent object, got {type(event).__name__}")
    if "data_base64" in event:
        return _merge(event, orjson.loads(b64decode(event["data_base64"], validate=True)))
    return _merge(event, event.get("data"))


def from_binary(headers: Mapping[str, bytes], value: bytes) -> JsonObject:
    """The fields of an ActionEvent from one binary CloudEvent: attributes in `ce_` headers.

    Raises:
        ValueError: the value is not a JSON object, or a header is not UTF-8.

    """
    attributes = {name[3:]: text.decode() for name, text in headers.items() if name.startswith("ce_")}
    return _merge(attributes, orjson.loads(value))


def _merge(attributes: Mapping[str, object], data: object) -> JsonObject:
    version = attributes.get("specversion")
    if version != "1.0":
        raise ValueError(f"specversion: expected 1.0, got {version!r:.40}")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ValueError(f"expected a JSON object as the CloudEvent's data, got {type(data).__name__}")
    fields: JsonObject = {ours: attributes[theirs] for theirs, ours in _ATTRIBUTES.items() if theirs in attributes}
    if "type" in attributes:
        fields["kind"] = _kind(str(attributes["type"]))
    fields.update(data)
    return fields


def _kind(event_type: str) -> str:
    for kind in Kind:
        if event_type == kind or event_type.endswith(f".{kind}"):
            return kind
    return event_type
