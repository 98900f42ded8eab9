"""Whatever is sent to a route of the intake: a clear answer, never a failure of ours, and nothing is lost silently."""

import asyncio
import gzip
import json
import re
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import ClientSession
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb

from haltline.schemas import cloudevents, otel
from haltline.schemas.events import Kind
from haltline.streams import otlp
from haltline.streams.broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn
from tests.streams.intaking import serving
from tests.streams.test_intake_formats import request_of
from tests.waiting import wait_until

NAMES = (
    "events", "kind", "session_id", "agent_id", "action", "args", "targets", "effect", "call_id", "time", "event_id",
    "usage", "error", "output", "v", "specversion", "id", "source", "subject", "type", "data", "data_base64",
    "resourceSpans", "scopeSpans", "spans", "traceId", "spanId", "parentSpanId", "startTimeUnixNano", "attributes",
    "endTimeUnixNano", "key", "value", "stringValue", "intValue", "kvlistValue", "values", "status", "code",
)  # fmt: skip
LEAF = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(("s1", "s2", "1.0", "action.proposed", "model.turn", "bash", "execute_tool", "read", "\ud800"))
)  # fmt: skip
VALUES = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=12,
)
EVENT = st.fixed_dictionaries(
    {"kind": st.sampled_from(Kind), "session_id": st.sampled_from(("s1", "s2"))},
    optional={"action": LEAF, "args": VALUES, "time": LEAF, "usage": VALUES, "targets": VALUES, "agent_id": LEAF},
)
CLOUD = st.fixed_dictionaries(
    {"specversion": st.just("1.0"), "id": st.text(min_size=1, max_size=5), "subject": st.just("s1")},
    optional={"type": LEAF, "source": LEAF, "data": VALUES, "data_base64": LEAF, "time": LEAF},
)
ATTRIBUTE = st.fixed_dictionaries({"key": st.sampled_from(
    ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.usage.input_tokens", "gen_ai.tool.call.arguments",
     "gen_ai.conversation.id", "mcp.method.name"))}, optional={"value": VALUES})  # fmt: skip
SPAN = st.fixed_dictionaries(
    {"traceId": LEAF, "spanId": LEAF, "startTimeUnixNano": LEAF, "endTimeUnixNano": LEAF},
    optional={"attributes": st.lists(ATTRIBUTE | LEAF, max_size=3) | LEAF, "status": VALUES, "kind": VALUES,
              "parentSpanId": LEAF},
)  # fmt: skip
SCOPE = st.fixed_dictionaries({"spans": st.lists(SPAN | LEAF, max_size=3)})
RESOURCE = st.fixed_dictionaries({"scopeSpans": st.lists(SCOPE, max_size=2)})
TRACES = st.fixed_dictionaries({"resourceSpans": st.lists(RESOURCE | VALUES, max_size=2)})
CALL = st.fixed_dictionaries(
    {"session_id": st.sampled_from(("s1", "s2", "", 7)), "action": st.sampled_from(("bash", "delete_x", "", None))},
    optional={"args": VALUES, "targets": VALUES, "effect": LEAF, "call_id": LEAF, "output": VALUES, "error": VALUES},
)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A request in protobuf, with some bytes changed, or cut."""
    raw = bytearray(request_of(2).SerializeToString())
    for _ in range(draw(st.integers(0, 4))):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw[: draw(st.integers(0, len(raw)))])


def in_json(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: json.dumps(value).encode())


ANY = st.binary(max_size=20) | in_json(VALUES)
LINES = st.lists(in_json(EVENT) | st.binary(max_size=8), max_size=3).map(b"\n".join)
REQUESTS = st.one_of(
    st.tuples(st.just("/v1/events"), st.just("application/json"), ANY | in_json(EVENT | st.lists(EVENT, max_size=3))),
    st.tuples(st.just("/v1/events"), st.just("application/x-ndjson"), ANY | LINES),
    st.tuples(st.just("/v1/events"), st.just(cloudevents.STRUCTURED), ANY | in_json(CLOUD)),
    st.tuples(
        st.just("/v1/events"),
        st.just("application/cloudevents-batch+json"),
        ANY | in_json(st.lists(CLOUD | LEAF, max_size=3)),
    ),
    st.tuples(st.just("/v1/verdict"), st.just("application/json"), ANY | in_json(CALL)),
    st.tuples(st.just("/v1/result"), st.just("application/json"), ANY | in_json(CALL)),
    st.tuples(st.just("/v1/traces"), st.just("application/json"), ANY | in_json(TRACES)),
    st.tuples(st.just("/v1/traces"), st.just(otlp.PROTOBUF), ANY | broken()),
)
# aiohttp sends no others.
HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8).map(str.strip)
CE_HEADERS = st.dictionaries(
    st.sampled_from(("ce-specversion", "ce-id", "ce-type", "ce-subject", "ce-source", "ce-time", "Content-Encoding")),
    HEADER | st.sampled_from(("1.0", "model.turn", "s1", "%FF", "%", "gzip", "2025-06-16T12:00:00Z")),
    max_size=6,
)


def test_every_request_has_a_clear_answer_and_what_was_accepted_is_on_the_topic(embedded: EmbeddedBroker) -> None:
    accepted = 0

    async def run() -> None:
        quick = serving(embedded.bootstrap, budget_s=0.01, start_budget_s=0.0, close_budget_s=10.0)
        async with quick as address, ClientSession(address) as http:
            loop = asyncio.get_running_loop()

            async def ask(path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
                async with http.post(path, data=body, headers=headers) as response:
                    return response.status, response.content_type, await response.read()

            await asyncio.to_thread(
                _ask_all, lambda *said: asyncio.run_coroutine_threadsafe(ask(*said), loop).result(30)
            )

    def _ask_all(ask: Callable[[str, bytes, dict[str, str]], tuple[int, str, bytes]]) -> None:
        @given(request=REQUESTS, headers=st.just({}) | CE_HEADERS, is_compressed=st.booleans())
        @settings(max_examples=120, suppress_health_check=list(HealthCheck))
        def any_request(request: tuple[str, str, bytes], headers: dict[str, str], is_compressed: bool) -> None:
            nonlocal accepted
            path, kind, body = request
            body_as_sent = body
            if is_compressed:
                body, headers = gzip.compress(body), headers | {"Content-Encoding": "gzip"}
            status, answered, said = ask(path, body, headers | {"Content-Type": kind})
            assert status in {200, 202, 400, 404, 413, 415}, said
            if status == 202:
                accepted += orjson.loads(said)["accepted"]
            elif status == 200 and path == "/v1/traces":
                accepted += len(otel.of_agents(otlp.spans_of(body_as_sent, kind))) - _rejected(kind, said)
            elif status >= 400:
                told = said.decode(errors="replace") if answered == otlp.PROTOBUF else orjson.loads(said)["errors"][0]
                assert re.search("wanted|invalid|needs|not_json", told), told

        any_request()

    with StandIn(embedded.bootstrap) as worker:
        asyncio.run(run())
        what = "every event that was accepted, and no other, is on the topic; those of guards are numbered"
        wait_until(lambda: len([e for e in worker.events if e.seq is None]) == accepted, what)
        assert accepted > 0


def _rejected(kind: str, said: bytes) -> int:
    if kind == otlp.PROTOBUF:
        return pb.ExportTraceServiceResponse.FromString(said).partial_success.rejected_spans
    return int(orjson.loads(said).get("partialSuccess", {}).get("rejectedSpans", 0))
