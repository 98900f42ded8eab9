from base64 import b64encode
from typing import Any

import orjson
import pytest

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.events import ActionEvent, Kind, Outcome, Usage
from haltline.schemas.otel import of_agents
from haltline.schemas.wire import MAX_EVENT_BYTES, InvalidRecord, decode_event
from tests.cases import cases

TIME_MS = 1_750_075_200_000
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "e1",
    "type": "com.example.agents.action.proposed",
    "source": "catalog-cleaner",
    "subject": "sess-1",
    "time": "2025-06-16T12:00:00Z",
}
DATA: dict[str, Any] = {"action": "delete_asset", "args": {"asset_id": "fact_sales"}, "seq": 3}
EXPECTED = ActionEvent(
    event_id="e1",
    kind=Kind.PROPOSED,
    session_id="sess-1",
    agent_id="catalog-cleaner",
    time=TIME_MS,
    action="delete_asset",
    args={"asset_id": "fact_sales"},
    seq=3,
)
Headers = list[tuple[str, bytes | None]]


def content_type(text: str) -> Headers:
    return [("content-type", text.encode())]


def binary(**changes: str) -> Headers:
    attributes = [(f"ce_{name}", text.encode()) for name, text in (ATTRIBUTES | changes).items()]
    return [*attributes, ("content-type", b"application/json")]


def structured(**changes: Any) -> bytes:
    return orjson.dumps(ATTRIBUTES | {"datacontenttype": "application/json", "data": DATA} | changes)


STRUCTURED = content_type("application/cloudevents+json")


def test_a_binary_cloud_event_is_read() -> None:
    assert decode_event(orjson.dumps(DATA), binary()) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "application/cloudevents+json",
        "application/cloudevents+json; charset=UTF-8",
        "Application/CloudEvents+JSON",
        "APPLICATION/CLOUDEVENTS+JSON ;charset=utf-8",
    ],
)
@pytest.mark.parametrize("name", ["content-type", "Content-Type"])
def test_a_structured_cloud_event_is_read_whatever_the_case_of_its_content_type(name: str, text: str) -> None:
    assert decode_event(structured(), [(name, text.encode())]) == EXPECTED


def test_data_of_a_structured_cloud_event_may_be_base64() -> None:
    event = ATTRIBUTES | {"data_base64": b64encode(orjson.dumps(DATA)).decode()}
    assert decode_event(orjson.dumps(event), STRUCTURED) == EXPECTED


def test_data_that_names_its_own_ids_wins_over_the_attributes() -> None:
    own = {"event_id": "own", "session_id": "own-session", "kind": "action.completed", "time": TIME_MS + 5}
    event = decode_event(structured(data=DATA | own), STRUCTURED)
    assert (event.event_id, event.session_id, event.kind) == ("own", "own-session", Kind.COMPLETED)
    assert event.time == TIME_MS + 5


def test_unknown_fields_of_the_data_are_kept() -> None:
    event = decode_event(structured(data=DATA | {"tenant": "north"}), STRUCTURED)
    assert event.model_extra == {"tenant": "north"}


@pytest.mark.parametrize("prefix", ["", "com.example.", "io.acme.agents.v2."])
@pytest.mark.parametrize("kind", Kind)
def test_the_type_is_a_kind_whatever_stands_before_it(prefix: str, kind: Kind) -> None:
    assert decode_event(structured(type=prefix + kind), STRUCTURED).kind is kind


def test_a_json_content_type_alone_is_a_native_event() -> None:
    assert decode_event(EXPECTED.to_json(), content_type("application/json")) == EXPECTED


def test_headers_that_say_nothing_of_a_format_do_not_matter() -> None:
    headers: Headers = [("traceparent", b"00-4bf9"), ("x", None), ("content-type", None), ("\u00e9", b"\xff")]
    assert decode_event(EXPECTED.to_json(), headers) == EXPECTED


@cases(
    "headers, value, reason, text",
    {
        "another format suffix": (
            content_type("application/cloudevents+avro"),
            structured(),
            BadRecord.UNKNOWN_FORMAT,
            "application/cloudevents+avro",
        ),
        "a batch, which Kafka does not have": (
            content_type("application/cloudevents-batch+json"),
            structured(),
            BadRecord.UNKNOWN_FORMAT,
            "batch",
        ),
        "no suffix": (content_type("application/cloudevents"), structured(), BadRecord.UNKNOWN_FORMAT, "+json"),
        "a structured tombstone": (STRUCTURED, None, BadRecord.EMPTY, "no value"),
        "a binary tombstone": (binary(), None, BadRecord.EMPTY, "no value"),
        "structured and cut": (STRUCTURED, b"{", BadRecord.NOT_JSON, ""),
        "binary with XML": (binary(), b"<xml/>", BadRecord.NOT_JSON, ""),
        "structured and an array": (STRUCTURED, b"[]", BadRecord.INVALID, "list"),
        "binary and an array": (binary(), b"[1]", BadRecord.INVALID, "list"),
        "data that is a text": (STRUCTURED, structured(data="text"), BadRecord.INVALID, "str"),
        "data that is not base64": (STRUCTURED, structured(data_base64="%"), BadRecord.INVALID, ""),
        "base64 that is a number": (STRUCTURED, structured(data_base64=7), BadRecord.INVALID, ""),
        "another type": (STRUCTURED, structured(type="com.example.lunch"), BadRecord.INVALID, "lunch"),
        "no subject": (STRUCTURED, structured(subject=None), BadRecord.INVALID, "session_id"),
        "older": (STRUCTURED, structured(specversion="0.3"), BadRecord.INVALID, "expected 1.0, got '0.3'"),
        "no version": (STRUCTURED, orjson.dumps({"id": "e"}), BadRecord.INVALID, "expected 1.0, got None"),
        "no time": (STRUCTURED, structured(time="now"), BadRecord.INVALID, "time"),
        "nested 500 deep": (
            STRUCTURED,
            b'{"specversion":"1.0","data":{"a":' + b"[" * 500 + b"]" * 500 + b"}}",
            BadRecord.INVALID,
            "ecursion",
        ),
        "too large": (
            STRUCTURED,
            structured(data={"args": {"a": "a" * MAX_EVENT_BYTES}}),
            BadRecord.TOO_LARGE,
            str(MAX_EVENT_BYTES),
        ),
        "a header that is not UTF-8": (
            [("ce_specversion", b"1.0"), ("ce_id", b"\xff")],
            b"{}",
            BadRecord.INVALID,
            "utf-8",
        ),
    },
)
def test_a_bad_cloud_event_has_a_reason(headers: Headers, value: bytes | None, reason: BadRecord, text: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        decode_event(value, headers)
    assert caught.value.reason is reason
    assert text in caught.value.detail


SPAN = content_type("application/vnd.opentelemetry.span+json")


def attribute(key: str, value: Any) -> dict[str, Any]:
    name = {str: "stringValue", bool: "boolValue", float: "doubleValue", dict: "kvlistValue"}.get(type(value))
    if name is None:  # OTLP/JSON writes 64-bit numbers as text
        return {"key": key, "value": {"intValue": str(value)}}
    if isinstance(value, dict):
        value = {"values": [attribute(inner, value[inner]) for inner in value]}
    return {"key": key, "value": {name: value}}


def span(fields: dict[str, Any], /, **changes: Any) -> bytes:
    return orjson.dumps(
        {
            "traceId": "5b8efff798038103d269b633813fc60c",
            "spanId": "eee19b7ec3c1b174",
            "name": "execute_tool delete_asset",
            "startTimeUnixNano": str((TIME_MS - 250) * 1_000_000),
            "endTimeUnixNano": str(TIME_MS * 1_000_000 + 999_999),
            "attributes": [attribute(key, value) for key, value in fields.items()],
        }
        | changes
    )


TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.conversation.id": "sess-1",
    "gen_ai.agent.id": "catalog-cleaner",
    "gen_ai.tool.name": "delete_asset",
    "gen_ai.tool.call.id": "call-9",
}


def test_a_span_of_a_tool_is_a_completed_action() -> None:
    arguments = {"asset_id": "fact_sales", "force": True, "limits": {"depth": 3, "ratio": 0.5}}
    event = decode_event(span(TOOL | {"gen_ai.tool.call.arguments": arguments}), SPAN)
    assert event == ActionEvent(
        event_id="5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174",
        kind=Kind.COMPLETED,
        session_id="sess-1",
        agent_id="catalog-cleaner",
        time=TIME_MS,
        call_id="call-9",
        action="delete_asset",
        args=arguments,
        outcome=Outcome.OK,
        duration_ms=250.999999,
    )


def test_arguments_may_be_the_text_of_an_object() -> None:
    event = decode_event(span(TOOL | {"gen_ai.tool.call.arguments": '{"asset_id": "fact_sales"}'}), SPAN)
    assert event.args == {"asset_id": "fact_sales"}


@pytest.mark.parametrize("arguments", ["{", '{"asset_id": "fact_sa', "[1, 2]", "fact_sales"])
def test_arguments_that_are_no_object_are_kept_as_they_are(arguments: str) -> None:
    event = decode_event(span(TOOL | {"gen_ai.tool.call.arguments": arguments}), SPAN)
    assert event.args == {"arguments": [1, 2] if arguments.startswith("[") else arguments}


def test_a_result_is_the_output() -> None:
    event = decode_event(span(TOOL | {"gen_ai.tool.call.result": {"state": "gone"}}), SPAN)
    assert (event.output_head, event.output_bytes) == ('{"state":"gone"}', 16)


@pytest.mark.parametrize(
    ("fields", "kind", "expected", "action"),
    [
        ({"gen_ai.operation.name": "delete_memory"}, 1, Kind.COMPLETED, "delete_memory"),
        ({"gen_ai.operation.name": "retrieval"}, 1, Kind.COMPLETED, "retrieval"),
        ({"mcp.method.name": "tools/call", "gen_ai.tool.name": "rm"}, 3, Kind.COMPLETED, "rm"),
        ({"gen_ai.operation.name": "invoke_agent"}, 1, Kind.HEARTBEAT, "invoke_agent"),
        ({"gen_ai.operation.name": "invoke_agent"}, "SPAN_KIND_CLIENT", Kind.MODEL_TURN, ""),
        ({"gen_ai.operation.name": "invoke_workflow"}, 1, Kind.HEARTBEAT, "invoke_workflow"),
        ({"gen_ai.operation.name": "something_new"}, 1, Kind.MODEL_TURN, ""),
        ({"gen_ai.system": "before operations had names"}, 3, Kind.MODEL_TURN, ""),
    ],
)
def test_what_a_span_is_by_its_operation(fields: dict[str, Any], kind: Any, expected: Kind, action: str) -> None:
    event = decode_event(span(fields | {"gen_ai.usage.input_tokens": 7}, kind=kind), SPAN)
    assert (event.kind, event.action) == (expected, action)
    assert event.usage == (Usage(input_tokens=7) if expected is Kind.MODEL_TURN else None)


def test_of_many_spans_those_of_agents_have_what_the_ones_above_them_say() -> None:
    def made(span_id: str, parent: str | None, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
        entries = [attribute(key, value) for key, value in fields.items()]
        return {"traceId": "t", "spanId": span_id, "parentSpanId": parent, "attributes": entries} | more

    spans = [
        made("tool", "http", {"gen_ai.operation.name": "execute_tool"}),
        made("http", "agent", {"http.method": "GET"}),
        made("own", "agent", {"gen_ai.tool.name": "x", "gen_ai.agent.name": "b"}),
        made("agent", None, {"gen_ai.conversation.id": "c", "gen_ai.agent.id": "a", "gen_ai.agent.name": "A"}),
        made("loop", "loop", {"gen_ai.tool.name": "x"}),
        made("server", "tool", {"mcp.method.name": "tools/call", "gen_ai.tool.name": "x"}, kind=2),
        made("ping", "tool", {"mcp.method.name": "ping"}, kind=3),
        {"spanId": 7, "attributes": "none"},
    ]
    fields = {
        found["spanId"]: {e["key"]: e["value"]["stringValue"] for e in found["attributes"]}
        for found in of_agents(spans)
    }
    assert set(fields) == {"tool", "own", "agent", "loop"}
    assert fields["tool"] | {"gen_ai.operation.name": ""} == fields["agent"] | {"gen_ai.operation.name": ""}
    assert fields["own"] == {"gen_ai.tool.name": "x", "gen_ai.agent.name": "b", "gen_ai.conversation.id": "c"}
    assert fields["loop"] == {"gen_ai.tool.name": "x"}


def test_a_span_without_arguments_works_for_they_are_opt_in() -> None:
    event = decode_event(span(TOOL), SPAN)
    assert event.args is None
    assert event.action == "delete_asset"


@pytest.mark.parametrize("operation", ["chat", "text_completion", "generate_content", "embeddings"])
def test_a_span_of_another_operation_is_a_model_turn_and_its_input_includes_what_came_from_the_cache(
    operation: str,
) -> None:
    used = {
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 64,
        "gen_ai.usage.cache_read.input_tokens": 900,
    }
    event = decode_event(
        span({"gen_ai.operation.name": operation, "gen_ai.request.model": "m-1", "gen_ai.agent.name": "n"} | used), SPAN
    )
    assert event.kind is Kind.MODEL_TURN
    assert event.action == "m-1"
    assert event.agent_id == "n"
    assert event.session_id == "5b8efff798038103d269b633813fc60c"
    assert event.usage == Usage(input_tokens=300, output_tokens=64, cache_read_tokens=900)


@pytest.mark.parametrize(
    ("attributes", "status", "error"),
    [
        pytest.param({}, {"code": 2, "message": "asset still exists"}, "asset still exists", id="a status of error"),
        pytest.param({}, {"code": "STATUS_CODE_ERROR"}, "error", id="a status by its name"),
        pytest.param({"error.type": "timeout"}, {}, "timeout", id="an error type"),
        pytest.param({"error.type": "timeout"}, None, "timeout", id="an error type and no status"),
        pytest.param({"error.type": "E"}, {"code": 2, "message": "gone"}, "E: gone", id="an error type and a message"),
        pytest.param({"error.type": "E"}, {"code": 2, "message": "E: gone"}, "E: gone", id="a message with its type"),
    ],
)
def test_a_failed_span_is_an_error(attributes: dict[str, Any], status: Any, error: str) -> None:
    event = decode_event(span(TOOL | attributes, status=status), SPAN)
    assert event.outcome is Outcome.ERROR
    assert event.error == error


@cases(
    "value, reason",
    {
        "empty": (b"", BadRecord.EMPTY),
        "not JSON": (b"{", BadRecord.NOT_JSON),
        "an array": (b"[]", BadRecord.INVALID),
        "no ids and no times": (b"{}", BadRecord.INVALID),
        "attributes that are texts": (span({}, attributes=["a"]), BadRecord.INVALID),
        "a value without a type": (span({}, attributes=[{"key": "a", "value": "b"}]), BadRecord.INVALID),
        "attributes that are a number": (span({}, attributes=7), BadRecord.INVALID),
        "a status that is a text": (span({}, status="bad"), BadRecord.INVALID),
        "a time of 4,000 digits": (span({}, endTimeUnixNano="9" * 4000), BadRecord.INVALID),
        "a time beyond 64 bits": (span({}, endTimeUnixNano="9" * 28), BadRecord.INVALID),
        "the year 9999": (span({}, endTimeUnixNano="253402300799000000000"), BadRecord.INVALID),
        "an end before the start": (span({}, endTimeUnixNano="0"), BadRecord.INVALID),
        "tokens that are a text": (span({"gen_ai.usage.input_tokens": "many"}), BadRecord.INVALID),
        "a value that is nested 300 deep": (
            b'{"attributes":[{"key":"a","value":' + b'{"arrayValue":{"values":[' * 300 + b"]}}" * 300 + b"}]}",
            BadRecord.INVALID,
        ),
    },
)
def test_a_bad_span_has_a_reason(value: bytes, reason: BadRecord) -> None:
    with pytest.raises(InvalidRecord) as caught:
        decode_event(value, SPAN)
    assert caught.value.reason is reason
