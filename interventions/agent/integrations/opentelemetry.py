"""OpenTelemetry: the generative AI spans of an instrumented agent, as events.

    provider.add_span_processor(HaltlineSpanProcessor(GuardSettings.from_env()))

The conversation of a span (`gen_ai.conversation.id`, else its trace) is the session. A span is published at its end:
detectors find problems, but nothing is refused. To refuse calls, put a guard around the agent's tools. Where only an
exporter can be given, use `HaltlineSpanExporter`. Needs opentelemetry-sdk (`pip install 'haltline[opentelemetry]'`).
"""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final

import orjson
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode, get_current_span

from haltline.interventions.agent.novelty import SeenBySession
from haltline.interventions.agent.producers.cleaning import cleaned
from haltline.interventions.agent.producers.publishing import Publisher
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import otel, wire
from haltline.schemas.events import ActionEvent
from haltline.schemas.record import JsonObject

log: Final = logging.getLogger("haltline.agent")

_HEADERS: Final = [("content-type", otel.CONTENT_TYPE.encode())]
_MAX_OPEN: Final = 10_000
_EXPORT_S: Final = 10.0
_CLOSE_S: Final = 5.0
_CODES: Final = {StatusCode.UNSET: 0, StatusCode.OK: 1, StatusCode.ERROR: 2}
_PARENTS: list[Publisher] = []


class HaltlineSpanExporter(SpanExporter):
    """Publishes spans in batches; a span inherits attributes from spans above it only if these are in its batch."""

    def __init__(self, settings: GuardSettings) -> None:
        """Uses only the broker, the prefix and the text limits of the settings. Raises KafkaException."""
        self._settings = settings
        self._pid = os.getpid()
        self._publisher = Publisher(settings)
        self._seen = SeenBySession()
        self._lock = threading.Lock()
        self._unread = 0

    @property
    def dropped(self) -> int:
        """Spans that could not be read, or that the broker did not accept."""
        return self._unread + self._publisher.dropped

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Publish the spans; waits for the broker's acknowledgement, for ten seconds at most."""
        found = otel.of_agents(span_of(span) for span in spans)
        published = [one for one in (self.tell(span) for span in found) if one is not None]
        done, late = wait(published, _EXPORT_S)
        failed = late or any(one.exception() is not None for one in done)
        return SpanExportResult.FAILURE if failed else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Wait for pending records, for five seconds at most."""
        if self._pid == os.getpid():
            self._publisher.close(_CLOSE_S)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait for pending records. False: some have not arrived."""
        return self._publisher.flush(timeout_millis / 1000) == 0

    def tell(self, span: JsonObject) -> "Future[None] | None":
        """Publish one span as an event; None: it cannot be read, which is logged and counted."""
        if self._pid != os.getpid():  # without its parent's threads, closing would wait forever
            _PARENTS.append(self._publisher)
            self._pid, self._publisher = os.getpid(), Publisher(self._settings)
        try:
            event = self._event(span)
        except (wire.InvalidRecord, orjson.JSONEncodeError) as bad:
            log.warning("haltline: a span cannot be read: %s", bad)
            with self._lock:
                self._unread += 1
            return None
        (published,) = self._publisher.publish([event])
        return published

    def _event(self, span: JsonObject) -> ActionEvent:
        return cleaned(wire.decode_event(orjson.dumps(span, default=str), _HEADERS), self._settings, self._seen)


class HaltlineSpanProcessor(SpanProcessor):
    """Publishes each span at its end, with attributes of the spans above it. Never waits or raises."""

    def __init__(self, settings: GuardSettings) -> None:
        self._exporter = HaltlineSpanExporter(settings)
        self._above: OrderedDict[tuple[int, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def dropped(self) -> int:
        """Spans that could not be read, or that the broker did not accept."""
        return self._exporter.dropped

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Store the conversation and agent of the span above."""
        try:
            above = get_current_span(parent_context)
            identity = self._identity_of(above.get_span_context(), getattr(above, "attributes", None) or {})
            key = _key(span.get_span_context())
            with self._lock:
                self._above[key] = identity
                if len(self._above) > _MAX_OPEN:
                    self._above.popitem(last=False)
        except Exception:  # an error here must not break an agent
            log.exception("haltline: the start of a span could not be published")

    def on_end(self, span: ReadableSpan) -> None:
        """Pass the span to the producer's bounded queue."""
        try:
            with self._lock:
                above = self._above.pop(_key(span.get_span_context()), {})
            if otel.of_agents([span_of(span)]):
                self._exporter.tell(span_of(span, _inherited(span.attributes or {}, above)))
        except Exception:  # as above
            log.exception("haltline: the end of a span could not be published")

    def shutdown(self) -> None:
        """Wait for pending records, for five seconds at most."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait for pending records. False: some have not arrived."""
        return self._exporter.force_flush(timeout_millis)

    def _identity_of(self, context: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
        own = {name: attributes[name] for names in otel.INHERITED for name in names if name in attributes}
        with self._lock:
            above = self._above.get(_key(context), {})
        return own | _inherited(own, above)


def span_of(span: ReadableSpan, more: Mapping[str, Any] | None = None) -> JsonObject:
    """Return a span of the SDK in OTLP/JSON."""
    context: Any = span.get_span_context()
    status: Status = span.status
    attributes = dict(span.attributes or {}) | dict(more or {})
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "parentSpanId": f"{span.parent.span_id:016x}" if span.parent is not None else "",
        "name": span.name,
        "kind": span.kind.value + 1,  # the SDK starts at 0; in OTLP, 0 is "unspecified"
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": [{"key": name, "value": value_of(value)} for name, value in attributes.items()],
        "status": {"code": _CODES[status.status_code], "message": status.description or ""},
    }


def value_of(value: object) -> JsonObject:
    """Return an attribute's value in OTLP/JSON."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Mapping):
        entries = [{"key": str(name), "value": value_of(inner)} for name, inner in value.items()]
        return {"kvlistValue": {"values": entries}}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return {"arrayValue": {"values": [value_of(inner) for inner in value]}}
    if value is None:
        return {}
    return {"stringValue": value.decode(errors="replace") if isinstance(value, bytes) else str(value)}


def _inherited(own: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inherited attributes: the groups of which the span has none of its own."""
    groups = (names for names in otel.INHERITED if own.keys().isdisjoint(names))
    return {name: above[name] for names in groups for name in names if name in above}


def _key(context: Any) -> tuple[int, int]:
    return (context.trace_id, context.span_id)
