"""LangSmith: runs from `client.list_runs()`, from the API, and from uploads of clients."""

from typing import Any

from haltline.schemas.events import Usage
from haltline.streams.importing.messages import args_of, returned
from haltline.streams.importing.spans import Span
from haltline.streams.importing.steps import TokenNames, tokens
from haltline.streams.importing.values import inside, instant, objects, text

EXPECTED = "a run of LangSmith"
_OF_RUN = TokenNames("prompt_tokens", "completion_tokens", "prompt_token_details.cache_read", "total_cost")
_OF_MESSAGE = TokenNames("input_tokens", "output_tokens", "input_token_details.cache_read", "total_cost")
_SESSIONS = ("thread_id", "session_id", "conversation_id")
"""The fields of the metadata by which LangSmith forms threads."""


def is_one(record: dict[str, Any]) -> bool:
    """Return whether a record is a run."""
    return isinstance(record.get("run_type"), str) and ("trace_id" in record or "dotted_order" in record)


def span_of(record: dict[str, Any]) -> Span:
    """Return the span of a run.

    Raises:
        ValueError: it has no id.

    """
    run_id = record.get("id")
    if not isinstance(run_id, str) or not run_id:
        raise ValueError(f"expected id, a text, got {run_id!r:.40}")
    metadata = inside(record, "extra", "metadata")
    named = (inside(metadata, name) for name in _SESSIONS)
    span = Span(
        id=run_id,
        parent=text(record.get("parent_run_id")),
        trace=record["trace_id"] if isinstance(record.get("trace_id"), str) else run_id,
        session=next((name for name in named if isinstance(name, str) and name), None),
        start_ms=instant(record.get("start_time")),
        end_ms=instant(record.get("end_time")),
    )
    error, outputs = record.get("error"), record.get("outputs")
    # LangChain appends the stack to the error
    span.error = (str(error).partition("Traceback (most recent call last)")[0].strip() or str(error)) if error else None
    if record["run_type"] == "llm":
        span.is_turn(outputs, _usage(record))
    elif record["run_type"] == "tool":
        span.is_call(record.get("name"), returned(outputs or None))
        inputs = record.get("inputs")
        # of a tool that was called with a text, the arguments are in the model's turn
        only_text = isinstance(inputs, dict) and set(inputs) == {"input"} and isinstance(inputs["input"], str)
        span.args = args_of(inputs["input"]) if only_text and isinstance(inputs, dict) else args_of(inputs)
    return span


def _usage(record: dict[str, Any]) -> Usage | None:
    """Return the usage as counted by the service, or as reported by the model; both include cached tokens."""
    if record.get("prompt_tokens") or record.get("completion_tokens"):
        return tokens(record, _OF_RUN)
    outputs = record.get("outputs")
    used = inside(outputs, "usage_metadata") or inside(record, "extra", "metadata", "usage_metadata")
    for generations in _lists(inside(outputs, "generations")):
        for one in objects(generations):
            message = one.get("message")
            used = used or inside(message, "kwargs", "usage_metadata") or inside(message, "usage_metadata")
    return tokens(used, _OF_MESSAGE)


def _lists(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
