"""OTel GenAI spans as ActionEvents: one OTLP/JSON span a record.

Read by the content type `application/vnd.opentelemetry.span+json`. A span is written when
the operation has ended, so it becomes `action.completed` (operation `execute_tool`) or
`model.turn` (all other operations). Names: OpenTelemetry semantic conventions for
generative AI, `gen_ai.*`. Arguments and results are opt-in content there: all works
without them.
"""

from typing import Any

import orjson

from haltline.schemas.events import Kind, Outcome
from haltline.schemas.record import JsonObject

CONTENT_TYPE = "application/vnd.opentelemetry.span+json"
_STATUS_ERROR = 2
_NS_PER_MS = 1_000_000


def from_span(value: bytes) -> JsonObject:
    """The fields of an ActionEvent from one OTLP/JSON span.

    Raises:
        ValueError: not JSON, or not an object.
        KeyError: an id or a time is missing.

    """
    span = orjson.loads(value)
    if not isinstance(span, dict):
        raise ValueError(f"wanted a span object, got {type(span).__name__}")
    attributes = {entry["key"]: _plain(entry.get("value", {})) for entry in span.get("attributes") or []}
    get = attributes.get
    status = span.get("status") or {}
    start_ns, end_ns = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    failed = status.get("code") in (_STATUS_ERROR, "STATUS_CODE_ERROR") or "error.type" in attributes
    fields: JsonObject = {
        "event_id": f"{span['traceId']}-{span['spanId']}",
        "session_id": get("gen_ai.conversation.id") or span["traceId"],
        "agent_id": get("gen_ai.agent.id") or get("gen_ai.agent.name") or "unknown",
        "time": end_ns // _NS_PER_MS,
        "duration_ms": (end_ns - start_ns) / _NS_PER_MS,
        "outcome": Outcome.ERROR if failed else Outcome.OK,
        "error": str(get("error.type") or status.get("message") or "error") if failed else None,
        "usage": {
            "input_tokens": int(get("gen_ai.usage.input_tokens") or 0),
            "output_tokens": int(get("gen_ai.usage.output_tokens") or 0),
            "cache_read_tokens": int(get("gen_ai.usage.cache_read.input_tokens") or 0),
        },
    }
    if get("gen_ai.operation.name") == "execute_tool":
        fields |= {
            "kind": Kind.COMPLETED,
            "action": get("gen_ai.tool.name") or span.get("name", ""),
            "call_id": get("gen_ai.tool.call.id"),
            "args": _arguments(get("gen_ai.tool.call.arguments")),
        }
    else:
        fields |= {"kind": Kind.MODEL_TURN, "action": get("gen_ai.request.model") or ""}
    return fields


def _arguments(value: object) -> JsonObject | None:
    """The arguments as an object: OTel allows an object or its JSON text."""
    if isinstance(value, str):
        value = orjson.loads(value)
    return value if isinstance(value, dict) else None


def _plain(value: dict[str, Any]) -> Any:
    """The plain value of an OTLP AnyValue."""
    if "kvlistValue" in value:
        return {entry["key"]: _plain(entry.get("value", {})) for entry in value["kvlistValue"].get("values", [])}
    if "arrayValue" in value:
        return [_plain(item) for item in value["arrayValue"].get("values", [])]
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)
