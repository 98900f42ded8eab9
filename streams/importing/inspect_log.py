"""Inspect: its logs of evaluations, `.json` and `.eval`; each sample is a session."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from haltline.schemas.events import Outcome
from haltline.streams.importing.messages import Proposal, args_of, text_of
from haltline.streams.importing.spans import MODEL, TOOL, Part, Span, parts
from haltline.streams.importing.steps import TokenNames, tokens
from haltline.streams.importing.values import inside, instant, objects, text

_ATTACHED = "attachment://"
_MAX_DEPTH = 40
_TOKENS = TokenNames(
    "input_tokens input_tokens_cache_read input_tokens_cache_write",
    "output_tokens",
    "input_tokens_cache_read",
    "total_cost",
)
_OUTCOMES = {"timeout": Outcome.TIMEOUT, "approval": Outcome.REFUSED, "permission": Outcome.ERROR}


def looks_so(value: object) -> bool:
    """Whether this is such a log."""
    return isinstance(inside(value, "eval", "task"), str) and ("samples" in value or "plan" in value)  # type: ignore[operator]  # an object, as its `eval` shows


def sample_parts(sample: dict[str, Any]) -> Iterator[Part]:
    """The session of a sample: its id, its epoch, and the beginning of its own id."""
    name = f"{sample.get('id')}_epoch_{sample.get('epoch')}"
    if isinstance(sample.get("uuid"), str):
        name = f"{name}_{sample['uuid'][:8]}"
    attached = sample.get("attachments")
    texts = attached if isinstance(attached, dict) else {}
    for part in parts(_spans(objects(sample.get("events")), texts)):
        yield Part(name, part.steps)


def _spans(events: list[dict[str, Any]], attached: dict[str, Any]) -> Iterator[Span]:
    for number, event in enumerate(events):
        kind, parent = event.get("event"), text(event.get("span_id"))
        start_ms, end_ms = instant(event.get("timestamp")), instant(event.get("completed"))
        span = partial(Span, id=f"event {number}", parent=parent, trace="", start_ms=start_ms, end_ms=end_ms)
        if kind == "span_begin" and isinstance(event.get("id"), str):
            yield Span(
                id=event["id"], parent=text(event.get("parent_id")), trace="", is_gate=event.get("type") == "tool"
            )
        elif kind == "model" and event.get("pending") is not True:
            yield _turn(span, event, attached)
        elif kind == "tool":
            yield _tool(span, event, attached)


def _turn(span: Callable[..., Span], event: dict[str, Any], attached: dict[str, Any]) -> Span:
    output = event.get("output")
    choices = objects(inside(output, "choices"))
    calls = [call for choice in choices for call in objects(inside(choice, "message", "tool_calls"))]
    error = event.get("error")
    return span(
        kind=MODEL,
        usage=tokens(inside(output, "usage"), _TOKENS),
        output=text_of(_whole([inside(choice, "message", "content") for choice in choices], attached)) or None,
        error=str(error) if error else None,
        proposals=[
            Proposal(call["id"], str(call.get("function")), args_of(_whole(call.get("arguments"), attached)))
            for call in calls
            if isinstance(call.get("id"), str)
        ],
    )


def _tool(span: Callable[..., Span], event: dict[str, Any], attached: dict[str, Any]) -> Span:
    error = event.get("error")
    kind = str(inside(error, "type"))
    return span(
        kind=TOOL,
        name=str(event.get("function") or "unknown"),
        args=args_of(_whole(event.get("arguments"), attached)),
        call_id=text(event.get("id")),
        outcome=_OUTCOMES.get(kind) if error else None,
        error=f"{kind}: {inside(error, 'message')}" if error else None,
        output=_whole(event.get("result"), attached) if event.get("pending") is not True else None,
    )


def _whole(value: Any, attached: dict[str, Any], depth: int = 0) -> Any:
    """The value with its long texts, which a log keeps beside the events."""
    if isinstance(value, str):
        return attached.get(value.removeprefix(_ATTACHED), value) if value.startswith(_ATTACHED) else value
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [_whole(one, attached, depth + 1) for one in value]
    if isinstance(value, dict):
        return {name: _whole(one, attached, depth + 1) for name, one in value.items()}
    return value
