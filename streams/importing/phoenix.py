"""Phoenix: spans of OpenInference from its API and client, as rows of a dataframe, and as OTLP/JSON."""

from typing import Any

import orjson

from haltline.schemas.events import Usage
from haltline.streams.importing.messages import args_of, proposals, returned, text_of
from haltline.streams.importing.spans import MODEL, Span
from haltline.streams.importing.steps import usage_of
from haltline.streams.importing.values import inside, instant, objects, text

EXPECTED = "a span of OpenInference"
KIND = "openinference.span.kind"
_CALL = "tool_call"
_OUTPUT = "llm.output_messages"
_CALLS_PER_TURN = 100


def is_one(record: dict[str, Any]) -> bool:
    """Return whether a record is a span of the API, the dataframe or OTLP/JSON, which can contain other spans."""
    return _is_of_phoenix(record) or (isinstance(record.get("spanId"), str) and isinstance(record.get("traceId"), str))


def shows(record: dict[str, Any]) -> bool:
    """Return whether a record shows that a file is of this format."""
    return _is_of_phoenix(record) or (isinstance(record.get("attributes"), list) and KIND in _flat(record))


def _is_of_phoenix(record: dict[str, Any]) -> bool:
    named = isinstance(inside(record, "context", "span_id"), str) or "context.span_id" in record
    return named and "span_kind" in record


def span_of(record: dict[str, Any]) -> Span:
    """Return the span of a record.

    Raises:
        ValueError: it has no id.

    """
    get = _flat(record).get
    span_id = inside(record, "context", "span_id") or record.get("context.span_id") or record.get("spanId")
    trace = inside(record, "context", "trace_id") or record.get("context.trace_id") or record.get("traceId")
    if not isinstance(span_id, str) or not isinstance(trace, str):
        raise ValueError(f"expected the ids of a span and of its trace, got {span_id!r:.40} and {trace!r:.40}")
    span = Span(
        id=span_id,
        parent=text(record.get("parent_id", record.get("parentSpanId"))),
        trace=trace,
        session=text(get("session.id")) or None,
        start_ms=_time(record.get("start_time", record.get("startTimeUnixNano"))),
        end_ms=_time(record.get("end_time", record.get("endTimeUnixNano"))),
    )
    code = record.get("status_code") or inside(record, "status", "code")
    if code in ("ERROR", "STATUS_CODE_ERROR", 2):
        span.error = str(record.get("status_message") or inside(record, "status", "message") or "error")
    kind, output = record.get("span_kind") or get(KIND), get("output.value")
    if kind == "LLM":
        messages = _messages(get)
        span.kind, span.usage = MODEL, _usage(get)
        read = args_of(output)
        span.output = text_of(messages) or text_of(read) or text(output)
        span.proposals = list(proposals(messages)) or list(proposals(read))
    elif kind == "TOOL":
        span.is_call(get("tool.name") or record.get("name"), returned(output))
        # of a tool with one argument, only the value is recorded here: its name is in the model's turn
        span.args = args_of(get("tool.parameters")) or args_of(get("input.value"))
        span.call_id = text(get("tool_call.id") or get("tool.id") or span.call_id)
    return span


def _usage(get: Any) -> Usage | None:
    cached = get("llm.token_count.prompt_details.cache_read")
    whole, out = get("llm.token_count.prompt"), get("llm.token_count.completion")
    return usage_of(whole, out, cached=cached, cost=get("llm.cost.total"))


def _messages(get: Any) -> Any:
    """Return the output messages of a model: from a list, or from numbered attributes."""
    listed = get(_OUTPUT)
    if isinstance(listed, str):
        try:
            listed = orjson.loads(listed)
        except orjson.JSONDecodeError:
            listed = None
    if isinstance(listed, list):
        return [_message(one) for one in objects(listed)]
    start = f"{_OUTPUT}.0.message"
    calls = []
    for number in range(_CALLS_PER_TURN):
        at = f"{start}.tool_calls.{number}.{_CALL}"
        name = get(f"{at}.function.name")
        if name is None:
            break
        calls.append({"id": get(f"{at}.id"), "name": name, "args": get(f"{at}.function.arguments")})
    content = get(f"{start}.content")
    return [{"content": content, "tool_calls": calls}] if content or calls else []


def _message(one: dict[str, Any]) -> dict[str, Any]:
    """Return a message of the dataframe, whose names are nested or contain dots."""
    flat, start = _unnested(one, ""), f"{_CALL}.function."
    calls = [_unnested(call, "") for call in objects(flat.get("message.tool_calls"))]
    read = [
        {"id": c.get(f"{_CALL}.id"), "name": c.get(f"{start}name"), "args": c.get(f"{start}arguments")} for c in calls
    ]
    return {"content": flat.get("message.content"), "tool_calls": read}


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span by their full names."""
    found = record.get("attributes")
    if isinstance(found, list):
        return {str(entry.get("key")): _plain(entry.get("value")) for entry in objects(found)}
    if isinstance(found, dict):
        return _unnested(found, "")
    return _unnested({n[11:]: v for n, v in record.items() if n.startswith("attributes.") and v is not None}, "")


def _plain(value: object) -> Any:
    """Return the plain value of an OTLP value, in which integers are texts."""
    if not isinstance(value, dict):
        return None
    number = value.get("intValue")
    if isinstance(number, str) and number[:20].isdigit():
        return int(number[:20])
    return next(iter(value.values()), None)


def _unnested(values: dict[str, Any], before: str, depth: int = 0) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and depth < 8:
            flat |= _unnested(value, f"{before}{name}.", depth + 1)
        else:
            flat[f"{before}{name}"] = value
    return flat


def _time(value: object) -> float | None:
    """Return the time of an ISO text, of milliseconds as in a table, or of OTLP's nanoseconds."""
    if isinstance(value, str) and value.isdigit():
        return instant(int(value[:20]) / 1e9)
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 1e11:
        return instant(value / (1e9 if value > 1e16 else 1e3))
    return instant(value)
