"""Langfuse: observations from its API, an export of a table (JSON, JSON lines), or an export to a storage."""

from typing import Any

from haltline.schemas.events import Usage
from haltline.streams.importing.messages import args_of, parsed, returned
from haltline.streams.importing.spans import Span
from haltline.streams.importing.steps import usage_of
from haltline.streams.importing.values import count, inside, instant, text

EXPECTED = "an observation of Langfuse"
_TYPES = frozenset(
    {"SPAN", "EVENT", "GENERATION", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
)


def is_one(record: dict[str, Any]) -> bool:
    """Return whether a record is an observation."""
    return str(record.get("type")) in _TYPES and _get(record, "traceId") is not None and "id" in record


def span_of(record: dict[str, Any]) -> Span:
    """Return the span of an observation.

    Raises:
        ValueError: it has no id.

    """
    span_id, trace = record.get("id"), _get(record, "traceId")
    if not isinstance(span_id, str) or not isinstance(trace, str):
        raise ValueError(f"expected id and traceId, got {span_id!r:.40} and {trace!r:.40}")
    span = Span(
        id=span_id,
        parent=text(_get(record, "parentObservationId")),
        trace=trace,
        session=text(_get(record, "sessionId")) or None,
        start_ms=instant(_get(record, "startTime")),
        end_ms=instant(_get(record, "endTime")),
    )
    if record.get("level") == "ERROR":
        span.error = str(_get(record, "statusMessage") or "error")
    kind, output = record.get("type"), record.get("output")
    if kind == "GENERATION":
        span.is_turn(parsed(output), _usage(record))
    elif kind == "TOOL":
        span.is_call(record.get("name"), returned(output))
        span.args = _args(record.get("input"))
    return span


def _args(value: object) -> dict[str, Any] | None:
    """Return the arguments of a tool; the decorator `observe` separates keyword and positional arguments."""
    args = args_of(value)
    if args is None or set(args) != {"args", "kwargs"} or not isinstance(args["kwargs"], dict):
        return args
    return args["kwargs"] | ({"args": args["args"]} if args["args"] else {})


def _usage(record: dict[str, Any]) -> Usage | None:
    """Return the usage. Langfuse's counts are disjoint: `input` excludes cached tokens."""
    details = args_of(_get(record, "usageDetails"))
    cost = inside(args_of(_get(record, "costDetails")), "total")
    cost = cost or _get(record, "totalCost") or record.get("calculatedTotalCost")
    if not details:
        used = record.get("usage")
        return usage_of(inside(used, "input"), inside(used, "output"), cost=cost)
    of_input = {name: count(tokens) for name, tokens in details.items() if "input" in name}
    cached = sum(n for name, n in of_input.items() if "cache" in name and "creat" not in name and "writ" not in name)
    return usage_of(sum(of_input.values()), details.get("output"), cached=cached, cost=cost)


def _get(record: dict[str, Any], name: str) -> Any:
    """Return a field by its name in the API (`traceId`), or in exports to a storage (`trace_id`)."""
    if name in record:
        return record[name]
    return record.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))
