"""Whatever is sent to a route of the intake: a clear answer, never a failure of ours, and nothing is lost silently."""

import asyncio
import gzip
import json
import re
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import ClientSession
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb

from haltline.schemas import cloudevents, otel
from haltline.streams.intake import otlp
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn
from tests.streams.intake.test_app import CLOUD, JSON, LINES
from tests.streams.intake.test_app_formats import request_of
from tests.streams.intaking import serving
from tests.streams.mangling import ODD, mangled
from tests.waiting import wait_until

LEAF = st.integers() | st.floats() | st.text(max_size=8)
VALUES = ODD | LEAF | st.lists(LEAF, max_size=2) | st.sampled_from(("\ud800", "s1", "1.0", "model.turn"))
EVENT: dict[str, Any] = {
    "kind": "action.completed", "session_id": "s1", "agent_id": "a", "action": "bash", "args": {"command": "ls"},
    "time": "2025-06-16T12:00:00Z", "usage": {"input_tokens": 7}, "targets": ["x=1"], "error": "no", "v": 1,
    "output_head": "x", "task": {"goal": "tidy"}, "duration_ms": 0.5, "event_id": "e",
}  # fmt: skip
MORE = {
    "session_id": "s2", "action": "bash", "call_id": "c", "agent_id": "a", "mode": "async", "session_mode": "async",
    "loop_key": "k", "parent_session_id": "s1", "ancestors": ["s0"], "mission_id": "m", "task": {"goal": "tidy"},
    "args": {"command": "ls"}, "unread_from": 9, "args_digest": "0123456789abcdef", "outcome": "ok", "error": "no",
    "described": {"digest": "0123456789abcdef", "bytes": 7, "head": "x"}, "usage": {"input_tokens": 7},
}  # fmt: skip
SPAN = {
    "traceId": "t", "spanId": "1", "parentSpanId": "1", "name": "bash", "kind": 2,
    "status": {"code": 2, "message": "no"}, "startTimeUnixNano": "1750000000000000000",
    "endTimeUnixNano": "1750000001000000000",
    "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
                   {"key": "gen_ai.conversation.id", "value": {"stringValue": "s1"}}],
}  # fmt: skip
DATA, BATCH = CLOUD | {"data": {"action": "m"}}, "application/cloudevents-batch+json"
GOOD: dict[tuple[str, str], Any] = {
    ("/v1/events", JSON): [EVENT, EVENT],
    ("/v1/events", LINES): [EVENT, EVENT],
    ("/v1/events", cloudevents.STRUCTURED): DATA,
    ("/v1/events", BATCH): [DATA, DATA],
    **{(f"/v1/{route}", JSON): MORE for route in ("verdict", "result", "turn", "start", "end")},
    ("/v1/traces", JSON): {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN, SPAN]}]}]},
    ("/v1/traces", otlp.PROTOBUF): request_of(2).SerializeToString(),
}
HEADERS = st.sampled_from(({}, {"ce-specversion": "1.0", "ce-id": "1"}, {"ce-type": "%FF"}, {"ce-time": "noon"}))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes, dict[str, str]]:
    """A path, a body that is good but for some places, and headers."""
    path, kind = draw(st.sampled_from(sorted(GOOD)))
    good, places = GOOD[path, kind], draw(st.integers(0, 3))
    if isinstance(good, bytes):
        raw = bytearray(good)
        for _ in range(places):
            raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        body = bytes(raw[: draw(st.integers(0, len(raw)))])
    else:
        for _ in range(places):
            good = mangled(good, draw, VALUES)
        each = good if kind == LINES and isinstance(good, list) else [good]
        body = draw(st.just(b"\n".join(json.dumps(one).encode() for one in each)) | st.binary(max_size=20))
    return path, body, draw(HEADERS) | {"Content-Type": draw(st.sampled_from((kind, kind, kind, "text/plain", "")))}


OTHER = {"key": "mcp.method.name", "value": {"stringValue": "tools/call"}}
ODD_SPAN = {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [OTHER], "kind": [2]}]}]}]}


def test_every_request_has_a_clear_answer_and_what_was_accepted_is_on_the_topic(embedded: EmbeddedBroker) -> None:
    accepted = 0

    async def run() -> None:
        quick = serving(embedded.bootstrap, budget_s=0.01, start_budget_s=0.0, close_budget_s=10.0)
        async with quick as address, ClientSession(address) as http:
            loop = asyncio.get_running_loop()

            async def ask(path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
                async with http.post(path, data=body, headers=headers) as response:
                    return response.status, response.content_type, await response.read()

            wait = asyncio.run_coroutine_threadsafe
            await asyncio.to_thread(_ask_all, lambda *request: wait(ask(*request), loop).result(30))

    def _ask_all(ask: Callable[[str, bytes, dict[str, str]], tuple[int, str, bytes]]) -> None:
        @given(request=requests(), is_compressed=st.booleans())
        @example(request=("/v1/events", json.dumps(EVENT).encode(), {"Content-Type": JSON}), is_compressed=True)
        @example(request=("/v1/traces", json.dumps(ODD_SPAN).encode(), {"Content-Type": JSON}), is_compressed=False)
        @settings(max_examples=50, suppress_health_check=list(HealthCheck))
        def any_request(request: tuple[str, bytes, dict[str, str]], is_compressed: bool) -> None:
            nonlocal accepted
            path, body, headers = request
            kind, sent = headers["Content-Type"], body
            if is_compressed:
                sent, headers = gzip.compress(body), headers | {"Content-Encoding": "gzip"}
            status, answered, result = ask(path, sent, headers)
            assert status in {200, 202, 400, 404, 413, 415}, result
            if status == 202:
                accepted += orjson.loads(result)["accepted"]
            elif status == 200 and path == "/v1/traces":
                accepted += len(otel.of_agents(otlp.spans_of(body, kind))) - _rejected(kind, result)
            elif status >= 400:
                is_text = answered == otlp.PROTOBUF
                reported = result.decode(errors="replace") if is_text else orjson.loads(result)["errors"][0]
                assert re.search("expected|invalid|needs|not_json", reported), reported

        any_request()

    with StandIn(embedded.bootstrap) as worker:
        asyncio.run(run())
        what = "every event that was accepted, and no other, is on the topic; those of guards are numbered"
        wait_until(lambda: len([e for e in worker.events if e.seq is None]) == accepted, what)
        assert accepted > 0


def _rejected(kind: str, data: bytes) -> int:
    if kind == otlp.PROTOBUF:
        return pb.ExportTraceServiceResponse.FromString(data).partial_success.rejected_spans
    return int(orjson.loads(data).get("partialSuccess", {}).get("rejectedSpans", 0))
