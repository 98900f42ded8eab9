import multiprocessing
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

from haltline.interventions.agent.integrations.opentelemetry import (
    HaltlineSpanExporter,
    HaltlineSpanProcessor,
    value_of,
)
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Kind, Outcome, Usage
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn
from tests.waiting import wait_until

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "cleaner", "gen_ai.conversation.id": "s1"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "delete_asset", "gen_ai.tool.call.id": "c1"}


def run_agent(tracer: Tracer) -> None:
    with tracer.start_as_current_span("invoke_agent", attributes=AGENT):
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as chat:
            chat.set_attribute("gen_ai.usage.input_tokens", 7)
        with (
            tracer.start_as_current_span("POST", attributes={"http.request.method": "POST"}),
            tracer.start_as_current_span("tool", attributes=TOOL | {"gen_ai.tool.call.arguments": '{"token": "abcd"}'}),
        ):
            pass


def provider_of(processor: SpanProcessor) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(processor)
    return provider


@pytest.mark.parametrize("which", ["processor", "exporter"])
def test_spans_are_events_of_their_conversation(embedded: EmbeddedBroker, which: str) -> None:
    settings = GuardSettings(bootstrap=embedded.bootstrap)
    provider = provider_of(
        BatchSpanProcessor(HaltlineSpanExporter(settings)) if which == "exporter" else HaltlineSpanProcessor(settings)
    )
    with StandIn(embedded.bootstrap) as worker:
        run_agent(provider.get_tracer("agent"))
        assert provider.force_flush()
        wait_until(lambda: len(worker.events) == 3, "the worker reads them")
        provider.shutdown()
        assert {(e.session_id, e.agent_id) for e in worker.events} == {("s1", "cleaner")}
        (turn,), (tool,) = worker.of(Kind.MODEL_TURN), worker.of(Kind.COMPLETED)
        assert turn.usage == Usage(input_tokens=7)
        assert (tool.action, tool.call_id, tool.outcome) == ("delete_asset", "c1", Outcome.OK)
        assert tool.args == {"token": "[redacted:token]"}


def test_the_processor_knows_what_is_above_a_span_that_has_not_ended(embedded: EmbeddedBroker) -> None:
    provider = provider_of(HaltlineSpanProcessor(GuardSettings(bootstrap=embedded.bootstrap)))
    tracer = provider.get_tracer("agent")
    with StandIn(embedded.bootstrap) as worker, tracer.start_as_current_span("invoke_agent", attributes=AGENT):
        for attributes in (TOOL, TOOL | {"gen_ai.agent.id": "b"}):
            tracer.start_span("tool", attributes=attributes).end()
        wait_until(lambda: len(worker.events) == 2, "they are told of while their agent goes on")
        assert [(e.session_id, e.agent_id) for e in worker.events] == [("s1", "cleaner"), ("s1", "b")]
        provider.shutdown()


def test_with_the_broker_away_nothing_waits_and_what_is_lost_is_counted() -> None:
    settings = GuardSettings(bootstrap="127.0.0.1:9", kafka={"delivery.timeout.ms": 50})
    processor = HaltlineSpanProcessor(settings)
    provider = provider_of(processor)
    run_agent(provider.get_tracer("agent"))
    provider.force_flush(10_000)
    provider.shutdown()
    assert processor.dropped == 3


def test_a_span_that_cannot_be_read_is_counted_and_breaks_nothing(embedded: EmbeddedBroker) -> None:
    exporter = HaltlineSpanExporter(GuardSettings(bootstrap=embedded.bootstrap))
    provider = provider_of(BatchSpanProcessor(exporter))
    bad: dict[str, Any] = {"gen_ai.usage.input_tokens": "many", "gen_ai.operation.name": "chat"}
    with StandIn(embedded.bootstrap) as worker:
        tracer = provider.get_tracer("agent")
        tracer.start_span("chat", attributes=bad).end()
        tracer.start_span("tool", attributes=TOOL).end()
        provider.shutdown()
        wait_until(lambda: worker.events, "the one that can be read is there")
        assert exporter.dropped == 1


def child(tracer: Tracer, provider: TracerProvider) -> None:
    tracer.start_span("invoke_agent", attributes=AGENT | {"gen_ai.conversation.id": "child"}).end()
    provider.force_flush()


def test_a_child_that_was_forked_is_covered_too(embedded: EmbeddedBroker) -> None:
    provider = provider_of(HaltlineSpanProcessor(GuardSettings(bootstrap=embedded.bootstrap)))
    tracer = provider.get_tracer("agent")
    with StandIn(embedded.bootstrap) as worker:
        process = multiprocessing.get_context("fork").Process(target=child, args=(tracer, provider))
        process.start()
        wait_until(lambda: worker.events, "what the child did is told")
        process.join()
        assert [e.session_id for e in worker.events] == ["child"]
        provider.shutdown()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, {"boolValue": True}),
        (7, {"intValue": "7"}),
        (0.5, {"doubleValue": 0.5}),
        ("a", {"stringValue": "a"}),
        (b"a\xff", {"stringValue": "a\ufffd"}),
        (None, {}),
        (("a", 1), {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}]}}),
        ({"a": {"b": 1}}, {"kvlistValue": {"values": [
            {"key": "a", "value": {"kvlistValue": {"values": [{"key": "b", "value": {"intValue": "1"}}]}}}]}}),
    ],
)  # fmt: skip
def test_a_value_is_as_otlp_has_it(value: object, expected: dict[str, Any]) -> None:
    assert value_of(value) == expected
