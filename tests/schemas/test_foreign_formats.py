from base64 import b64encode
from typing import Any

import orjson
import pytest

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.events import ActionEvent, Kind, Outcome, Usage
from haltline.schemas.otel import of_agents
from haltline.schemas.wire import MAX_EVENT_BYTES, InvalidRecord, decode_event
from tests.builders import cases

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


def test_a_cloud_event_is_read_binary_structured_and_in_base64() -> None:
    in_base64 = ATTRIBUTES | {"data_base64": b64encode(orjson.dumps(DATA)).decode()}
    for headers, value in (
        (binary(), orjson.dumps(DATA)),
        (STRUCTURED, structured()),
        (STRUCTURED, orjson.dumps(in_base64)),
        ([("Content-Type", b"APPLICATION/CloudEvents+JSON ;charset=utf-8")], structured()),
        (content_type("application/json"), EXPECTED.to_json()),  # a native one
    ):
        assert decode_event(value, headers) == EXPECTED


def test_data_that_names_its_own_ids_wins_over_the_attributes_and_unknown_fields_are_kept() -> None:
    own = {"event_id": "own", "session_id": "own-session", "kind": "action.completed", "time": TIME_MS + 5}
    event = decode_event(structured(data=DATA | own | {"tenant": "north"}), STRUCTURED)
    assert (event.event_id, event.session_id, event.kind) == ("own", "own-session", Kind.COMPLETED)
    assert (event.time, event.model_extra) == (TIME_MS + 5, {"tenant": "north"})


@pytest.mark.parametrize("kind", Kind)
def test_the_type_is_a_kind_whatever_stands_before_it(kind: Kind) -> None:
    for prefix in ("", "com.example.", "io.acme.agents.v2."):
        assert decode_event(structured(type=prefix + kind), STRUCTURED).kind is kind


INVALID, NOT_JSON = BadRecord.INVALID, BadRecord.NOT_JSON
AVRO, BATCH = "application/cloudevents+avro", "application/cloudevents-batch+json"
TOO_LARGE = structured(data={"args": {"a": "a" * MAX_EVENT_BYTES}})
NESTED = b'{"specversion":"1.0","data":{"a":' + b"[" * 500 + b"]" * 500 + b"}}"
NOT_UTF8: Headers = [("ce_specversion", b"1.0"), ("ce_id", b"\xff")]


@cases(
    "headers, value, reason, text",
    {
        "another format suffix": (content_type(AVRO), structured(), BadRecord.UNKNOWN_FORMAT, AVRO),
        "a batch, which Kafka does not have": (content_type(BATCH), structured(), BadRecord.UNKNOWN_FORMAT, "batch"),
        "a structured tombstone": (STRUCTURED, None, BadRecord.EMPTY, "no value"),
        "structured and cut": (STRUCTURED, b"{", NOT_JSON, ""),
        "structured and an array": (STRUCTURED, b"[]", INVALID, "list"),
        "data that is not base64": (STRUCTURED, structured(data_base64="%"), INVALID, ""),
        "another type": (STRUCTURED, structured(type="com.example.lunch"), INVALID, "lunch"),
        "no subject": (STRUCTURED, structured(subject=None), INVALID, "session_id"),
        "older": (STRUCTURED, structured(specversion="0.3"), INVALID, "expected 1.0, got '0.3'"),
        "no time": (STRUCTURED, structured(time="now"), INVALID, "time"),
        "nested 500 deep": (STRUCTURED, NESTED, INVALID, "ecursion"),
        "too large": (STRUCTURED, TOO_LARGE, BadRecord.TOO_LARGE, str(MAX_EVENT_BYTES)),
        "a header that is not UTF-8": (NOT_UTF8, b"{}", INVALID, "utf-8"),
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
    content = {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": {"state": "gone"}}
    event = decode_event(span(TOOL | content), SPAN)
    result = {"output_head": '{"state":"gone"}', "output_bytes": 16, "duration_ms": 250.999999}
    call = {"kind": Kind.COMPLETED, "call_id": "call-9", "args": arguments, "outcome": Outcome.OK, "seq": None}
    event_id = "5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174"
    assert event == EXPECTED.model_copy(update={"event_id": event_id, **call, **result})


@pytest.mark.parametrize(
    ("written", "args"),
    [
        ('{"asset_id": "fact_sales"}', {"asset_id": "fact_sales"}),
        ("{", {"arguments": "{"}),
        ('{"asset_id": "fact_sa', {"arguments": '{"asset_id": "fact_sa'}),
        ("[1, 2]", {"arguments": [1, 2]}),
        ("fact_sales", {"arguments": "fact_sales"}),
        (None, None),
    ],
)
def test_arguments_are_opt_in_and_those_that_are_no_object_are_kept_as_they_are(written: str | None, args: Any) -> None:
    event = decode_event(span(TOOL if written is None else TOOL | {"gen_ai.tool.call.arguments": written}), SPAN)
    assert (event.args, event.action) == (args, "delete_asset")


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
        made("chain", None, {"openinference.span.kind": "CHAIN", "session.id": "s", "agent.name": "B"}),
        made("inner", "chain", {"openinference.span.kind": "TOOL"}),
    ]
    found = {one["spanId"]: one["attributes"] for one in of_agents(spans)}
    fields = {name: {e["key"]: e["value"]["stringValue"] for e in entries} for name, entries in found.items()}
    assert set(fields) == {"tool", "own", "agent", "loop", "chain", "inner"}
    assert fields["inner"] == {"openinference.span.kind": "TOOL", "session.id": "s", "agent.name": "B"}
    assert fields["tool"] | {"gen_ai.operation.name": ""} == fields["agent"] | {"gen_ai.operation.name": ""}
    assert fields["own"] == {"gen_ai.tool.name": "x", "gen_ai.agent.name": "b", "gen_ai.conversation.id": "c"}
    assert fields["loop"] == {"gen_ai.tool.name": "x"}


@cases(
    "kind, attributes, expected",
    {
        "a turn": (
            "LLM",
            {
                "llm.model_name": "m-1", "llm.token_count.prompt": 1200, "llm.token_count.completion": 64,
                "llm.token_count.prompt_details.cache_read": 900, "session.id": "s1", "agent.name": "cleaner",
            },
            {
                "kind": Kind.MODEL_TURN, "action": "m-1", "session_id": "s1", "agent_id": "cleaner",
                "usage": Usage(input_tokens=300, output_tokens=64, cache_read_tokens=900),
            },
        ),
        "a tool, whose message has the id of its call": (
            "TOOL",
            {"tool.name": "rm", "input.value": '{"path": "a"}',
             "output.value": '{"type": "tool", "data": {"content": "gone", "tool_call_id": "c1"}}'},
            {"kind": Kind.COMPLETED, "action": "rm", "args": {"path": "a"}, "call_id": "c1", "output_head": "gone"},
        ),
        "a tool with another output": (
            "TOOL", {"tool.name": "rm", "input.value": "a", "output.value": '{"data": 1'},
            {"kind": Kind.COMPLETED, "args": {"arguments": "a"}, "call_id": None, "output_head": '{"data": 1'},
        ),
        "names of both conventions": (
            "TOOL",
            {"tool.name": "theirs", "gen_ai.tool.name": "ours", "gen_ai.conversation.id": "s2", "session.id": "s1"},
            {"kind": Kind.COMPLETED, "action": "ours", "session_id": "s2"},
        ),
        "what consists of other spans": ("AGENT", {}, {"kind": Kind.HEARTBEAT}),
    },
)  # fmt: skip
def test_a_span_of_openinference_is_read_by_its_kind(
    kind: str, attributes: dict[str, Any], expected: dict[str, Any]
) -> None:
    event = decode_event(span({"openinference.span.kind": kind, **attributes}), SPAN)
    assert {name: getattr(event, name) for name in expected} == expected


@pytest.mark.parametrize("operation", ["chat", "text_completion", "generate_content", "embeddings"])
def test_other_operations_are_model_turns_whose_input_includes_what_came_from_the_cache(operation: str) -> None:
    used = {"input_tokens": 1200, "output_tokens": 64, "cache_read.input_tokens": 900}
    named = {"gen_ai.operation.name": operation, "gen_ai.request.model": "m-1", "gen_ai.agent.name": "n"}
    event = decode_event(span(named | {f"gen_ai.usage.{name}": count for name, count in used.items()}), SPAN)
    assert (event.kind, event.action, event.agent_id) == (Kind.MODEL_TURN, "m-1", "n")
    assert event.session_id == "5b8efff798038103d269b633813fc60c"
    assert event.usage == Usage(input_tokens=300, output_tokens=64, cache_read_tokens=900)


@cases(
    "attributes, status, error",
    {
        "a status of error": ({}, {"code": 2, "message": "asset still exists"}, "asset still exists"),
        "a status by its name": ({}, {"code": "STATUS_CODE_ERROR"}, "error"),
        "an error type and a message": ({"error.type": "E"}, {"code": 2, "message": "gone"}, "E: gone"),
    },
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
        "a value without a type": (span({}, attributes=[{"key": "a", "value": "b"}]), BadRecord.INVALID),
        "a time beyond 64 bits": (span({}, endTimeUnixNano="9" * 28), BadRecord.INVALID),
        "an end before the start": (span({}, endTimeUnixNano="0"), BadRecord.INVALID),
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
