"""Inspect: logs of evaluations, `.json` and `.eval`; each sample is a session."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from haltline.interventions.agent.integrations.any_json import readable
from haltline.schemas.events import Outcome
from haltline.streams.importing import archive, spans
from haltline.streams.importing.messages import Proposal, args_of, text_of
from haltline.streams.importing.reading import Content, NotReadable, Source, got_instead, shown
from haltline.streams.importing.spans import MODEL, TOOL, Part, Span
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


def shows(content: Content) -> bool:
    """Return whether the file is such a log in JSON."""
    value = content.value
    return isinstance(inside(value, "eval", "task"), str) and ("samples" in value or "plan" in value)


def check_archive(path: Path) -> None:
    """Raise NotReadable for an archive that is not a log."""
    with _opened(path) as packed:
        names = packed.names
    if not {"header.json", "_journal/start.json"}.intersection(names):
        raise NotReadable(
            f"{path}: expected a log of Inspect, got an archive with {shown(', '.join(names))[:80] or 'no file'}"
        )


def parts(source: Source) -> Iterator[Part]:
    """Yield the session of each sample; an archive is decompressed sample by sample."""
    for sample in _packed_samples(source) if archive.is_archive(source.path) else _samples(source):
        yield from _parts(sample)


def _samples(source: Source) -> list[dict[str, Any]]:
    return source.objects("samples", inside(source.content.value, "samples"))


def _packed_samples(source: Source) -> Iterator[dict[str, Any]]:
    with _opened(source.path) as packed:
        for name in packed.names:
            if not name.startswith("samples/") or not name.endswith(".json"):
                continue
            try:
                sample = readable(packed.unpacked(name))
            except archive.NotUnpacked as why:
                source.skipped.append(f"{shown(name)}: {why}")
            except ValueError as why:
                source.skipped.append(f"{shown(name)}: expected JSON, got {got_instead(why)}")
            else:
                yield from source.objects(shown(name), [sample])


def _opened(path: Path) -> archive.Archive:
    try:
        return archive.Archive(path)
    except archive.NotUnpacked as why:
        raise NotReadable(f"{path}: {why}") from None


def _parts(sample: dict[str, Any]) -> Iterator[Part]:
    """Yield the session of a sample, named by its id, its epoch, and the beginning of its `uuid`."""
    name = f"{sample.get('id')}_epoch_{sample.get('epoch')}"
    if isinstance(sample.get("uuid"), str):
        name = f"{name}_{sample['uuid'][:8]}"
    attached = sample.get("attachments")
    texts = attached if isinstance(attached, dict) else {}
    for part in spans.parts(_spans(objects(sample.get("events")), texts)):
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
    """Return the value with its long texts, which a log keeps in `attachments`."""
    if isinstance(value, str):
        return attached.get(value.removeprefix(_ATTACHED), value) if value.startswith(_ATTACHED) else value
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [_whole(one, attached, depth + 1) for one in value]
    if isinstance(value, dict):
        return {name: _whole(one, attached, depth + 1) for name, one in value.items()}
    return value
