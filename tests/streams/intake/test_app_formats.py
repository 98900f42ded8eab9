"""The intake with the official SDKs at the other end: OpenTelemetry's exporters over HTTP, and CloudEvents."""

import asyncio
import gzip
import sys
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from haltline.schemas.events import Kind, Outcome, Usage
from haltline.streams.intake import otlp
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn
from tests.streams.intaking import asking, serving, with_intake
from tests.waiting import wait_until


def one_run(tracer: Tracer) -> None:
    """Write an agent's spans by the conventions: only the outermost span names the conversation."""
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "cleaner", "gen_ai.conversation.id": "s1"}
    with tracer.start_as_current_span("invoke_agent cleaner", attributes=agent):
        with tracer.start_as_current_span("chat m-1", attributes={"gen_ai.operation.name": "chat"}) as chat:
            chat.set_attribute("gen_ai.request.model", "m-1")
            chat.set_attribute("gen_ai.usage.input_tokens", 900)
            chat.set_attribute("gen_ai.usage.cache_read.input_tokens", 500)
            chat.set_attribute("gen_ai.usage.output_tokens", 40)
        arguments = '{"asset_id": "fact_sales", "password": "hunter2"}'
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "delete_asset"}
        tool |= {"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": arguments}
        with tracer.start_as_current_span("execute_tool delete_asset", attributes=tool) as span:
            span.set_attribute("gen_ai.tool.call.result", "still there")
        failed = tool | {"error.type": "Locked"}
        with tracer.start_as_current_span("execute_tool delete_asset", attributes=failed) as span:
            span.set_status(StatusCode.ERROR, "asset is locked")
        with tracer.start_as_current_span("GET", attributes={"http.request.method": "GET"}):
            pass


def recorded() -> Any:
    """The spans of such a run."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    one_run(provider.get_tracer("agent"))
    provider.shutdown()
    return kept.get_finished_spans()


def test_spans_of_the_official_exporter_are_events_however_they_are_packed(embedded: EmbeddedBroker) -> None:
    async def run() -> list[SpanExportResult]:
        async with serving(embedded.bootstrap, token="secret") as address:
            result, headers = [], {"Authorization": "Bearer secret"}
            for packed in Compression:
                exporter: SpanExporter = OTLPSpanExporter(f"{address}/v1/traces", headers=headers, compression=packed)
                result.append(await asyncio.to_thread(exporter.export, recorded()))
                await asyncio.to_thread(exporter.shutdown)
            return result

    with StandIn(embedded.bootstrap) as worker:
        assert asyncio.run(run()) == [SpanExportResult.SUCCESS] * len(Compression)
        wait_until(lambda: len(worker.events) == 12, "the worker reads them; the request of HTTP is none of ours")
        assert {(e.session_id, e.agent_id) for e in worker.events} == {("s1", "cleaner")}
        assert [event.kind for event in worker.events[4:]] == [event.kind for event in worker.events[:4]] * 2
        turn, ok, failed, whole = worker.events[:4]
        assert (turn.kind, turn.action) == (Kind.MODEL_TURN, "m-1")
        assert turn.usage == Usage(input_tokens=400, output_tokens=40, cache_read_tokens=500)
        assert (ok.kind, ok.action, ok.call_id, ok.outcome) == (Kind.COMPLETED, "delete_asset", "c1", Outcome.OK)
        assert ok.args == {"asset_id": "fact_sales", "password": "[redacted:password]"}
        assert (ok.output_head, ok.output_bytes) == ("still there", 11)
        assert ok.output_novelty is not None
        assert (ok.output_novelty.new_words, ok.output_novelty.words, ok.output_novelty.results) == (2, 2, 0)
        assert ok.output_digest is not None
        assert (failed.outcome, failed.error) == (Outcome.ERROR, "Locked: asset is locked")
        assert whole.kind is Kind.HEARTBEAT


CHAT = {"gen_ai.operation.name": "chat"}


def request_of(
    spans: int, attributes: Mapping[str, str] = CHAT, *, without_id: int = 0
) -> pb.ExportTraceServiceRequest:
    """So many spans with these attributes; the first of them without a time."""
    request = pb.ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(spans):
        span = scope.spans.add(trace_id=bytes(16), span_id=number.to_bytes(8, "big"), name="chat")
        if number >= without_id:
            span.start_time_unix_nano, span.end_time_unix_nano = 1_750_000_000_000_000_000, 1_750_000_001_000_000_000
        for name, text in attributes.items():
            span.attributes.add(key=name).value.string_value = text
    return request


Answered = tuple[int, str, bytes]


def posted(embedded: EmbeddedBroker, *requests: tuple[bytes, str, dict[str, str]]) -> list[Answered]:
    """The intake's response to each body of this type, with these headers: status, type, body."""

    async def run() -> list[Answered]:
        async with serving(embedded.bootstrap) as address, ClientSession() as http:
            found = []
            for body, kind, headers in requests:
                asked = http.post(f"{address}/v1/traces", data=body, headers={"Content-Type": kind, **headers})
                async with asked as answer:
                    found.append((answer.status, answer.content_type, await answer.read()))
            return found

    return asyncio.run(run())


BOMB = gzip.compress(b" " * 9 * 1024 * 1024)
GZIP = {"Content-Encoding": "gzip"}
UNREADABLE: list[tuple[str, bytes, str, dict[str, str], int, str]] = [
    ("broken protobuf", b"\xff\xff", otlp.PROTOBUF, {}, 400, "expected an OTLP request in protobuf"),
    ("other protobuf", b"xx", otlp.PROTOBUF, {}, 400, "(resource_spans), got other fields"),
    ("broken JSON", b"{", "application/json", {}, 400, "expected JSON"),
    ("another request", b'{"events": []}', "application/json", {}, 400, "expected an OTLP request"),
    ("a gzip bomb", BOMB, otlp.PROTOBUF, GZIP, 413, "expected at most"),
    ("no gzip", b"no gzip", otlp.PROTOBUF, GZIP, 400, ""),
]


def test_a_request_that_cannot_be_read_is_reported_in_its_own_format(embedded: EmbeddedBroker) -> None:
    found = posted(embedded, *[(body, kind, headers) for _, body, kind, headers, *_ in UNREADABLE])
    for (name, *_, status, expected), (actual, answered, result) in zip(UNREADABLE, found, strict=True):
        assert actual == status, name
        if answered == otlp.PROTOBUF:  # a Status is alike on the wire: a code, and a message
            assert expected in pb.ExportTracePartialSuccess.FromString(result).error_message, name
        else:
            assert expected.encode() in result, name


def test_without_the_package_for_protobuf_json_is_asked_for(
    embedded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1", None)
    requests = [(request_of(1).SerializeToString(), otlp.PROTOBUF), (b"{}", "application/json")]
    assert [status for status, *_ in posted(embedded, *[(*request, {}) for request in requests])] == [415, 200]


ATTRIBUTES = {
    "id": "e1", "source": "cleaner", "type": "com.example.action.proposed", "subject": "säss-1", "specversion": "1.0",
}  # fmt: skip
DATA = {"action": "delete_asset", "args": {"asset_id": "x", "api_key": "abc123"}}
CE = {f"ce-{name}": text.replace("ä", "%C3%A4") for name, text in ATTRIBUTES.items()}
BINARY: list[tuple[bytes, dict[str, str], int, str]] = [
    (b"", {}, 202, "accepted"),
    (b"{}", {"ce-time": "2025-06-16T12:00:00Z"}, 202, "accepted"),
    (b"{}", {"ce-time": "noon"}, 400, "expected an RFC 3339 time"),
    (b"{}", {"ce-specversion": "0.3"}, 400, "specversion: expected 1.0, got '0.3'"),
    (b"{}", {"ce-type": "lunch"}, 400, "kind"),
    (b"[]", {}, 400, "expected a JSON object as the CloudEvent's data, got list"),
]


def test_events_of_the_official_sdk_are_accepted_and_a_binary_event_is_read_or_reported(
    embedded: EmbeddedBroker,
) -> None:
    event = CloudEvent(ATTRIBUTES | {"datacontenttype": "application/json"}, DATA)
    messages: list[Any] = [to_binary_event(event), to_structured_event(event)]
    asked = [("/v1/events", m.body, {name.title(): text for name, text in m.headers.items()}) for m in messages]
    asked += [("/v1/events", body, CE | headers) for body, headers, *_ in BINARY]
    with StandIn(embedded.bootstrap) as worker:
        first, second, *found = with_intake(embedded.bootstrap, asking(*asked))
        assert first == second == (202, {"accepted": 1})
        for (*_, status, expected), (actual, result) in zip(BINARY, found, strict=True):
            assert (actual, expected in orjson.dumps(result).decode()) == (status, True), result
        wait_until(lambda: len(worker.events) >= 2, "the worker reads them")
        for read in worker.events[:2]:
            named = (read.event_id, read.session_id, read.agent_id, read.action)
            assert named == ("e1", "säss-1", "cleaner", "delete_asset")
            assert read.args == {"asset_id": "x", "api_key": "[redacted:api_key]"}


def test_what_cannot_be_read_of_a_request_is_reported_as_a_partial_success(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap) as worker:
        body = request_of(5, without_id=2).SerializeToString()
        ((status, _, answer),) = posted(embedded, (body, otlp.PROTOBUF, {}))
        rejected = pb.ExportTraceServiceResponse.FromString(answer).partial_success
        assert (status, rejected.rejected_spans) == (200, 2)
        assert "span '0000000000000000'" in rejected.error_message
        wait_until(lambda: len(worker.events) == 3, "the others are events")
