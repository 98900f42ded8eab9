"""OpenAI's Agents SDK: traces and spans, as written with `export()` by a `TracingProcessor`."""

from typing import Any

from haltline.streams.importing.messages import args_of
from haltline.streams.importing.spans import TOOL, Span
from haltline.streams.importing.steps import TokenNames, tokens
from haltline.streams.importing.values import inside, instant, text

EXPECTED = "a trace or a span of the OpenAI Agents SDK"
_RESPONSE = TokenNames("input_tokens", "output_tokens", "input_tokens_details.cached_tokens")
_MODELS = ("generation", "response")  # not a set: a record's value may not be hashable


def is_one(record: dict[str, Any]) -> bool:
    """Return whether a record is a trace or a span."""
    return (record.get("object") == "trace" and "workflow_name" in record) or (
        record.get("object") == "trace.span" and "span_data" in record
    )


def span_of(record: dict[str, Any]) -> Span:
    """Return the span of a record; that of a trace has its group. Calls have no ids in this format.

    Raises:
        ValueError: it has no id.

    """
    trace = record.get("id") if record.get("object") == "trace" else record.get("trace_id")
    if not isinstance(record.get("id"), str) or not isinstance(trace, str):
        raise ValueError(f"expected id and trace_id, got {record.get('id')!r:.40} and {trace!r:.40}")
    span = Span(id=record["id"], trace=trace, session=text(record.get("group_id")) or None)
    data = record.get("span_data")
    if not isinstance(data, dict):
        return span
    span.parent = text(record.get("parent_id"))
    span.start_ms, span.end_ms = instant(record.get("started_at")), instant(record.get("ended_at"))
    span.error = _error(record.get("error"))
    if data.get("type") in _MODELS:
        span.is_turn(data.get("output"), tokens(data.get("usage"), _RESPONSE) or tokens(data.get("usage")))
    elif data.get("type") == "function":
        span.kind, span.name = TOOL, str(data.get("name") or "unknown")
        span.args, span.output = args_of(data.get("input")), data.get("output")
    return span


def _error(error: object) -> str | None:
    if error is None:
        return None
    why = inside(error, "data", "error")
    return f"{inside(error, 'message') or error}" + (f": {why}" if why else "")
