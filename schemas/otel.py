"""OTel GenAI spans as ActionEvents: one OTLP/JSON span per record.

Read by the content type `application/vnd.opentelemetry.span+json`. A span is written when the operation has ended, so
it becomes `action.completed` (a tool, a memory, a retrieval), `model.turn` (a request to a model) or
`session.heartbeat` (a parent of other spans, whose tokens are already counted). Names: OpenTelemetry semantic
conventions for generative AI, `gen_ai.*`, and for MCP, or those of OpenInference (a span with
`openinference.span.kind`). Arguments and results are opt-in there and not required.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from haltline.schemas.events import Kind, Outcome
from haltline.schemas.record import JsonObject, canonical_json

CONTENT_TYPE = "application/vnd.opentelemetry.span+json"
INHERITED = (
    ("gen_ai.conversation.id",),
    ("session.id",),
    ("gen_ai.agent.id", "gen_ai.agent.name"),
    ("agent.name",),
)
"""Attributes that a span inherits from its parent if it has none of their group of its own."""

_GEN_AI = "gen_ai."
_OPENINFERENCE = "openinference.span.kind"
_OPERATIONS = {"LLM": "chat", "EMBEDDING": "embeddings", "TOOL": "execute_tool", "RETRIEVER": "retrieval"}
"""Operations by OpenInference's kinds of spans; every other kind is made of other spans."""
_NAMES = (
    ("gen_ai.conversation.id", ("session.id",)),
    ("gen_ai.agent.name", ("agent.name",)),
    ("gen_ai.request.model", ("llm.model_name", "embedding.model_name")),
    ("gen_ai.usage.input_tokens", ("llm.token_count.prompt",)),
    ("gen_ai.usage.output_tokens", ("llm.token_count.completion",)),
    ("gen_ai.usage.cache_read.input_tokens", ("llm.token_count.prompt_details.cache_read",)),
    ("gen_ai.tool.name", ("tool.name",)),
    ("gen_ai.tool.call.id", ("tool_call.id", "tool.id")),
    ("gen_ai.tool.call.arguments", ("tool.parameters", "input.value")),
    ("gen_ai.tool.call.result", ("output.value",)),
)
"""The conventions' names, each with OpenInference's for the same."""
_TOOL_OPERATION = "execute_tool"
_WHOLES = ("invoke_agent", "invoke_workflow", "create_agent", "plan")  # not a set: a value may be unhashable
_STATUS_ERROR = 2
_CLIENT = (3, "SPAN_KIND_CLIENT")
_SERVER = (2, "SPAN_KIND_SERVER")
_NS_PER_MS = 1_000_000
_MAX_OUTPUT_CHARS = 16_384
_MAX_DEPTH = 64


def of_agents(spans: Iterable[JsonObject]) -> list[JsonObject]:
    """The spans of generative AI, of OpenInference and of MCP tool calls, with the attributes that they inherit.

    Spans of MCP servers are left out, because their clients report the same calls.
    """
    spans = list(spans)
    by_id = {(str(span.get("traceId")), str(span.get("spanId"))): span for span in spans}
    ours = [span for span in spans if _is_of_agents(span)]
    return [span | {"attributes": [*_entries(span), *_from_above(span, by_id)]} for span in ours]


def from_span(value: bytes) -> JsonObject:
    """The fields of an ActionEvent from one OTLP/JSON span.

    Raises:
        ValueError: not JSON, or not an object.
        KeyError: an id or a time is missing.

    """
    span = orjson.loads(value)
    if not isinstance(span, dict):
        raise ValueError(f"expected a span object, got {type(span).__name__}")
    attributes = {entry["key"]: _plain(entry.get("value", {})) for entry in span.get("attributes") or []}
    if _OPENINFERENCE in attributes:
        attributes = _by_their_names(attributes)
    get = attributes.get
    start_ns, end_ns = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    error = _error(span.get("status") or {}, get("error.type"))
    fields: JsonObject = {
        "event_id": f"{span['traceId']}-{span['spanId']}",
        "session_id": get("gen_ai.conversation.id") or span["traceId"],
        "agent_id": get("gen_ai.agent.id") or get("gen_ai.agent.name") or "unknown",
        "time": end_ns // _NS_PER_MS,
        "duration_ms": (end_ns - start_ns) / _NS_PER_MS,
        "outcome": Outcome.OK if error is None else Outcome.ERROR,
        "error": error,
    }
    operation = get("gen_ai.operation.name")
    if operation == _TOOL_OPERATION or get("mcp.method.name") == "tools/call":
        return fields | {
            "kind": Kind.COMPLETED,
            "action": get("gen_ai.tool.name") or span.get("name", ""),
            "call_id": get("gen_ai.tool.call.id"),
            "args": _arguments(get("gen_ai.tool.call.arguments")),
            **_output(get("gen_ai.tool.call.result")),
        }
    if operation == "retrieval" or (isinstance(operation, str) and operation.endswith(("_memory", "_memory_store"))):
        return fields | {"kind": Kind.COMPLETED, "action": operation}
    if (
        isinstance(operation, str)
        and operation in _WHOLES
        and not (operation == "invoke_agent" and span.get("kind") in _CLIENT)
    ):
        return fields | {"kind": Kind.HEARTBEAT, "action": operation}
    return fields | {"kind": Kind.MODEL_TURN, "action": get("gen_ai.request.model") or "", "usage": _usage(attributes)}


def _by_their_names(attributes: Mapping[str, Any]) -> JsonObject:
    """The attributes of OpenInference under the conventions' names, which a span may have as well."""
    operation = _OPERATIONS.get(str(attributes[_OPENINFERENCE]), "invoke_workflow")
    found: JsonObject = {"gen_ai.operation.name": operation}
    for name, theirs in _NAMES:
        value = next((attributes[one] for one in theirs if attributes.get(one) is not None), None)
        if value is not None:
            found[name] = value
    if operation == _TOOL_OPERATION:
        found |= _of_message(attributes.get("output.value"))
    return {**found, **attributes}


def _of_message(output: object) -> JsonObject:
    """The result and the id of the call in a tool's message, as LangChain's tools return it; else nothing."""
    try:
        message = orjson.loads(output) if isinstance(output, str) and output[:1] == "{" else None
    except orjson.JSONDecodeError:
        return {}
    for name in ("output", "kwargs", "data"):
        if isinstance(message, dict) and isinstance(message.get(name), dict):
            message = message[name]
    if not isinstance(message, dict) or not isinstance(message.get("tool_call_id"), str):
        return {}
    return {"gen_ai.tool.call.id": message["tool_call_id"], "gen_ai.tool.call.result": message.get("content")}


def _usage(attributes: Mapping[str, Any]) -> JsonObject:
    """The tokens of a turn. In the conventions, cached tokens are part of the input; in an event, they are not."""
    get = attributes.get
    whole = int(get("gen_ai.usage.input_tokens") or get("gen_ai.usage.prompt_tokens") or 0)
    cached = int(get("gen_ai.usage.cache_read.input_tokens") or 0)
    return {
        "input_tokens": max(whole - cached, 0),
        "output_tokens": int(get("gen_ai.usage.output_tokens") or get("gen_ai.usage.completion_tokens") or 0),
        "cache_read_tokens": cached,
        "cost_usd": float(get("llm.cost.total") or 0.0),
    }


def _error(status: Mapping[str, Any], error_type: object) -> str | None:
    if status.get("code") not in (_STATUS_ERROR, "STATUS_CODE_ERROR") and error_type is None:
        return None
    message = status.get("message")
    if error_type is None:
        return str(message or "error")
    text = str(message or "")
    return text if text.startswith(str(error_type)) else f"{error_type}: {text}" if text else str(error_type)


def _arguments(value: object) -> JsonObject | None:
    """The arguments as an object: OTel allows an object or its JSON text, which may be truncated."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return {"arguments": value}
    if value is None or isinstance(value, dict):
        return value
    return {"arguments": value}


def _output(value: object) -> JsonObject:
    if value is None:
        return {}
    text = value if isinstance(value, str) else canonical_json(value).decode()
    return {"output_head": text[:_MAX_OUTPUT_CHARS], "output_bytes": len(text.encode())}


def _entries(span: JsonObject) -> list[Any]:
    found = span.get("attributes")
    return found if isinstance(found, list) else []


def _attribute_entry(span: JsonObject, name: str) -> Any:
    """The entry of an attribute, or None."""
    return next((e for e in _entries(span) if isinstance(e, dict) and e.get("key") == name), None)


def _is_of_agents(span: JsonObject) -> bool:
    is_mcp = _attribute_entry(span, "mcp.method.name") is not None
    if is_mcp and span.get("kind") in _SERVER:
        return False
    if is_mcp:  # of MCP's methods, only tool calls are actions
        return _attribute_entry(span, "gen_ai.tool.name") is not None
    names = [str(e.get("key", "")) for e in _entries(span) if isinstance(e, dict)]
    return any(name.startswith(_GEN_AI) or name == _OPENINFERENCE for name in names)


def _from_above(span: JsonObject, by_id: Mapping[tuple[str, str], JsonObject]) -> list[Any]:
    """The conversation and the agent, each from the nearest ancestor span that has it."""
    missing = [names for names in INHERITED if not _those(span, names)]
    found: list[Any] = []
    above: JsonObject | None = span
    for _ in range(_MAX_DEPTH):
        above = by_id.get((str(above.get("traceId")), str(above.get("parentSpanId")))) if above else None
        if above is None or not missing:
            break
        for names in list(missing):
            entries = _those(above, names)
            if entries:
                found += entries
                missing.remove(names)
    return found


def _those(span: JsonObject, names: Iterable[str]) -> list[Any]:
    return [entry for entry in (_attribute_entry(span, name) for name in names) if entry is not None]


def _plain(value: dict[str, Any]) -> Any:
    """The plain value of an OTLP AnyValue."""
    if "kvlistValue" in value:
        return {entry["key"]: _plain(entry.get("value", {})) for entry in value["kvlistValue"].get("values", [])}
    if "arrayValue" in value:
        return [_plain(item) for item in value["arrayValue"].get("values", [])]
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)
