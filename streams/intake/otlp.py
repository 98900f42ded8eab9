"""OTLP/HTTP (https://opentelemetry.io/docs/specs/otlp/#otlphttp): requests for traces in JSON and in protobuf.

Both become spans in OTLP/JSON's form. Protobuf needs opentelemetry-proto, from the extra `intake`.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from haltline.schemas.record import JsonObject

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_INVALID_ARGUMENT: Final = 3  # google.rpc.Code
_UNAVAILABLE: Final = 14
MAX_SPANS: Final = 10_000
"""The most spans of one request; exporters send 512 by default."""
MAX_ATTRIBUTES: Final = 1024
"""The most attributes of one span; SDKs keep 128 by default."""


class NotOtlp(Exception):
    """A body is not a request for traces: what was expected and what was given."""


def spans_of(body: bytes, content_type: str) -> list[JsonObject]:
    """Return the spans of a request.

    Raises:
        NotOtlp: it is not a request for traces.
        ModuleNotFoundError: protobuf cannot be read here.

    """
    return _from_protobuf(body) if content_type == PROTOBUF else _from_json(body)


def accepted(content_type: str, rejected: Iterable[str] = ()) -> bytes:
    """Return the answer to a request: everything was accepted, or all except some spans, and why."""
    why = list(rejected)
    if content_type != PROTOBUF:
        message = "; ".join(why[:5])
        return orjson.dumps({"partialSuccess": {"rejectedSpans": len(why), "errorMessage": message}} if why else {})
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb  # noqa: PLC0415  # of an extra

    response = pb.ExportTraceServiceResponse()
    if why:
        response.partial_success.rejected_spans = len(why)
        response.partial_success.error_message = "; ".join(why[:5])
    return response.SerializeToString()


def failed(content_type: str, http_status: int, problems: Iterable[str]) -> bytes:
    """Return the answer to a request of which nothing was accepted: a google.rpc.Status."""
    why = list(problems)
    code = _UNAVAILABLE if http_status == 503 else _INVALID_ARGUMENT
    if content_type != PROTOBUF:
        return orjson.dumps({"code": code, "message": "; ".join(why), "errors": why})
    try:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError:
        return b""
    # A Status is from another package, with the same wire format: a number (1), then a text (2).
    return pb.ExportTracePartialSuccess(rejected_spans=code, error_message="; ".join(why)).SerializeToString()


def _from_json(body: bytes) -> list[JsonObject]:
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise NotOtlp(f"expected JSON, got {error}") from None
    if request == {}:  # nothing to report
        return []
    try:
        spans = [
            span
            for resource in request["resourceSpans"]
            for scope in resource.get("scopeSpans") or []
            for span in scope.get("spans") or []
            if isinstance(span, dict)
        ]
    except (KeyError, TypeError, AttributeError):
        raise NotOtlp("expected an OTLP request (resourceSpans, scopeSpans, spans), got another") from None
    _require_few(len(spans))
    return spans


def _from_protobuf(body: bytes) -> list[JsonObject]:
    from google.protobuf.message import DecodeError  # noqa: PLC0415  # of an extra
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb  # noqa: PLC0415  # as above

    request = pb.ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise NotOtlp(f"expected an OTLP request in protobuf, got {error}") from None
    if body and not request.resource_spans:
        raise NotOtlp("expected an OTLP request in protobuf (resource_spans), got other fields")
    scopes = [scope for resource in request.resource_spans for scope in resource.scope_spans]
    _require_few(sum(len(scope.spans) for scope in scopes))  # a span of two bytes takes a kilobyte as a value
    return [_span(span) for scope in scopes for span in scope.spans]


def _require_few(spans: int) -> None:
    if spans > MAX_SPANS:
        raise NotOtlp(f"expected at most {MAX_SPANS} spans, got {spans}")


def _span(span: Any) -> JsonObject:
    """Return a span as OTLP/JSON has it: unlike the JSON form of protobuf, with ids in hex."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415  # of an extra

    del span.attributes[MAX_ATTRIBUTES:]
    for unread in ("events", "links"):
        span.ClearField(unread)
    ids = {"traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_span_id}
    fields: JsonObject = MessageToDict(span, use_integers_for_enums=True)
    return fields | {name: value.hex() for name, value in ids.items()}
