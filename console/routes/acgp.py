"""`/v1`: the API of ACGP's platform for its SDK: traces in, scores, feedback and a stream of decisions out."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from haltline.console.access.keys import Who
from haltline.console.context import AgentClient, Context, ContextDep
from haltline.console.http.routing import NotFinite, StrictRoute, loads
from haltline.console.request_limits import MAX_BODY_BYTES
from haltline.console.routes import acgp_traces as traces
from haltline.console.routes.acgp_traces import EXAMPLE, Trace
from haltline.schemas.events import ActionEvent
from haltline.schemas.problems import problem_of
from haltline.schemas.record import JsonObject

router = APIRouter(prefix="/v1", tags=["acgp"], route_class=StrictRoute)

MAX_TRACES: Final = 1000
_LOOK_EVERY_S: Final = 0.2
_BEAT_EVERY_S: Final = 1.0
"""The SDK checks whether to stop only when a message arrives."""
_STREAM_S: Final = 60.0
"""Seconds after which a stream ends and the SDK reconnects at once: so a shutdown waits no longer."""
_AGAIN_MS: Final = 10_000
"""Decisions up to this many milliseconds before a stream are sent on it too: its client may have been disconnected
briefly."""


def _described(schema: JsonObject, example: JsonObject) -> JsonObject:
    """The description of a body that the route reads itself, as it may be compressed."""
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


_BODY: Final = _described(Trace.model_json_schema(), EXAMPLE)
_BATCH_FIELDS: Final[JsonObject] = {
    "batch_id": {"type": "string"},
    "timestamp": {"type": "string"},
    "events": {"type": "array", "items": {"type": "object"}},
}
_BATCH: Final = _described(
    {"type": "object", "required": ["events"], "properties": _BATCH_FIELDS},
    {"batch_id": "batch-1", "timestamp": "2026-01-01T12:00:00", "events": [EXAMPLE]},
)
_BAD: dict[int | str, dict[str, Any]] = {
    400: {"description": "It cannot be read: where, what was expected, what got."},
    413: {"description": "It is too large."},
}


class TracesAccepted(BaseModel):
    """The outcome of traces. The same trace sent again counts once."""

    status: str = "accepted"
    accepted: int
    failed: int
    errors: list[str]
    batch_id: str | None = None
    trace_id: str | None = None


async def _body(request: Request) -> Any:
    whole = await request.body()
    if request.headers.get("content-encoding", "").lower() == "gzip":
        whole = _unzipped(whole)
    try:
        return loads(whole)
    except NotFinite as error:
        raise HTTPException(422, f"the body: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body: expected JSON, got {error}") from None


Body = Annotated[Any, Depends(_body)]


@router.post("/ingest/traces", status_code=202, responses=_BAD, openapi_extra=_BODY)
def trace(here: ContextDep, who: AgentClient, body: Body) -> TracesAccepted:
    """Publishes one trace as events, to which all rules apply."""
    events, problem = _events(body, who, None, "trace")
    if problem is not None:
        raise HTTPException(400, problem)
    publish(here, events)
    return TracesAccepted(accepted=1, failed=0, errors=[], trace_id=body["trace_id"])


@router.post("/ingest/traces/batch", status_code=202, responses=_BAD, openapi_extra=_BATCH)
def batch(here: ContextDep, who: AgentClient, body: Body) -> TracesAccepted:
    """Publishes traces; gzip is read. What cannot be read is reported trace by trace; the others are published."""
    listed = body.get("events") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        raise HTTPException(400, "events: expected a list of traces, got none")
    if len(listed) > MAX_TRACES:
        raise HTTPException(413, f"events: expected at most {MAX_TRACES} traces, got {len(listed)}")
    sent_at = body.get("timestamp")
    events: list[ActionEvent] = []
    problems: list[str] = []
    for number, one in enumerate(listed):
        made, problem = _events(one, who, sent_at if isinstance(sent_at, str) else None, f"events[{number}]")
        events += made
        problems += [] if problem is None else [problem]
    publish(here, events)
    batch_id = body.get("batch_id")
    return TracesAccepted(
        accepted=len(listed) - len(problems),
        failed=len(problems),
        errors=problems[:100],
        batch_id=batch_id if isinstance(batch_id, str) else None,
    )


@router.get("/query/scores/{trace_id}")
def scores(here: ContextDep, who: AgentClient, trace_id: str) -> JsonObject:
    """CTQ of a trace: each dimension, and the total. `status` is `processed`, `pending` or `not_found`."""
    status, found = _found(here, who, trace_id)
    ctq_scores = None if found is None else found.ctq_scores()
    return {"trace_id": trace_id, "status": status, "scores": ctq_scores, "ctq_scores": ctq_scores}


@router.get("/query/feedback/{trace_id}")
def feedback(here: ContextDep, who: AgentClient, trace_id: str) -> JsonObject:
    """The decision on a trace, in ACGP's vocabulary."""
    status, found = _found(here, who, trace_id)
    if found is None:
        return {"trace_id": trace_id, "status": status, "feedback": None}
    return found.follow_up()


@router.get("/query/oversight/{trace_id}")
def oversight(here: ContextDep, who: AgentClient, trace_id: str) -> JsonObject:
    """The level of oversight that follows from a trace."""
    status, found = _found(here, who, trace_id)
    return {
        "trace_id": trace_id,
        "status": status,
        "oversight_mode": None if found is None else found.oversight_mode,
    }


@router.get(
    "/stream/traces",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: connected, trace_processed (with scores and feedback), heartbeat.",
            "content": {
                "text/event-stream": {
                    "example": 'event: trace_processed\ndata: {"trace_id":"6f2b","status":"processed"}\n\n'
                }
            },
        }
    },
)
def stream(request: Request, here: ContextDep, who: AgentClient) -> StreamingResponse:
    """Streams the decisions on this key's traces as they are made. At least once."""
    return StreamingResponse(
        _follow(request, here, who), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _follow(request: Request, here: Context, who: Who) -> AsyncIterator[bytes]:
    engine = here.engine
    since_ms = time.time_ns() // 1_000_000 - _AGAIN_MS
    yield _event("connected", {"key": who.name})
    after: dict[int, int] = {}
    sent: dict[str, str] = {}
    begun_at = beat_at = time.monotonic()
    while time.monotonic() - begun_at < _STREAM_S and not _ends(request) and not await request.is_disconnected():
        ids, after = await run_in_threadpool(traces.news, engine, after, since_ms)
        for trace_id in ids:
            _, found = await run_in_threadpool(traces.processed, engine, trace_id, who.name)
            if found is not None and sent.get(trace_id) != found.decision.decision_id:
                sent[trace_id] = found.decision.decision_id
                yield _event("trace_processed", found.follow_up())
                beat_at = time.monotonic()
        if time.monotonic() - beat_at >= _BEAT_EVERY_S:
            yield _event("heartbeat", {})
            beat_at = time.monotonic()
        await asyncio.sleep(_LOOK_EVERY_S)


def _ends(request: Request) -> bool:
    return bool(getattr(getattr(request.app.state, "live", None), "closed", False))


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


def _found(here: Context, who: Who, trace_id: str) -> tuple[str, traces.Processed | None]:
    known, found = traces.processed(here.engine, trace_id, None if who.may("look") else who.name)
    return ("processed" if found is not None else "pending" if known else "not_found"), found


def _events(body: object, who: Who, sent_at: str | None, place: str) -> tuple[list[ActionEvent], str | None]:
    try:
        return traces.events_of(Trace.model_validate(body), key=who.name, sent_at=sent_at), None
    except ValidationError as error:
        return [], f"{place}.{problem_of(error)}"[:2000]


def publish(here: Context, events: list[ActionEvent]) -> None:
    """Publish events on `actions`, keyed by session, and wait for the broker's confirmation. Raises Unreachable."""
    if events:
        records = [(event.session_id.encode(), event.to_json()) for event in events]
        here.sender.send_all(here.settings.topics.actions, records)


def _unzipped(data: bytes) -> bytes:
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        whole = reader.decompress(data, MAX_BODY_BYTES)
    except zlib.error as error:
        raise HTTPException(400, f"the body: expected gzip, as its headers say, got {error}") from None
    if reader.unconsumed_tail:
        raise HTTPException(413, f"the body: expected at most {MAX_BODY_BYTES} bytes unpacked, got more")
    return whole
