"""OpenTelemetry: the spans of generative AI that an agent makes anyway, as events.

    provider.add_span_processor(HaltlineSpanProcessor(GuardSettings.from_env()))

The conversation of a span (`gen_ai.conversation.id`, else its trace) is the session. A span is published when it has
ended: so this shows what an agent does, and detectors find what is wrong with it, but nothing is refused; for that put
a guard around its tools. Where only an exporter can be given, `HaltlineSpanExporter` is one. Needs opentelemetry-sdk
(`pip install 'haltline[opentelemetry]'`).
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
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode, get_current_span

from haltline.interventions.agent.integrations.cleaning import cleaned
from haltline.interventions.agent.integrations.publishing import Publisher
from haltline.interventions.agent.novelty import SeenBySession
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
    """Publishes spans in batches; what a span has from the ones above it is known as far as these are in its batch."""

    def __init__(self, settings: GuardSettings) -> None:
        """Of the settings only the broker, the prefix and what is kept of texts are used. Raises KafkaException."""
        self._settings = settings
        self._pid = os.getpid()
        self._publisher = Publisher(settings)
        self._seen = SeenBySession()
        self._lock = threading.Lock()
        self.dropped = 0
        """Spans that could not be read, or that the broker did not take."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Waits until the broker has them, for ten seconds at most."""
        found = otel.of_agents(span_of(span) for span in spans)
        published = [one for one in (self.tell(span) for span in found) if one is not None]
        done, late = wait(published, _EXPORT_S)
        failed = len(late) + sum(one.exception() is not None for one in done)
        self._drop(failed)
        return SpanExportResult.FAILURE if failed else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Waits for what is under way, for five seconds at most."""
        if self._pid == os.getpid():
            self._publisher.close(_CLOSE_S)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Waits for what is under way. False: not all of it has arrived."""
        return self._publisher.flush(timeout_millis / 1000) == 0

    def tell(self, span: JsonObject) -> "Future[None] | None":
        """Publishes one span as an event; None: it cannot be read, which is logged and counted."""
        if self._pid != os.getpid():  # a child has not its parent's threads; ending them here would wait without end
            _PARENTS.append(self._publisher)
            self._pid, self._publisher = os.getpid(), Publisher(self._settings)
        try:
            event = self._event(span)
        except (wire.InvalidRecord, orjson.JSONEncodeError) as bad:
            log.warning("haltline: a span cannot be read: %s", bad)
            self._drop(1)
            return None
        (published,) = self._publisher.publish([event])
        return published

    def tell_alone(self, span: JsonObject) -> None:
        """As `tell`; what does not arrive is counted."""
        published = self.tell(span)
        if published is not None:
            published.add_done_callback(lambda done: self._drop(int(done.exception() is not None)))

    def _event(self, span: JsonObject) -> ActionEvent:
        return cleaned(wire.decode_event(orjson.dumps(span, default=str), _HEADERS), self._settings, self._seen)

    def _drop(self, count: int) -> None:
        with self._lock:
            self.dropped += count


class HaltlineSpanProcessor(SpanProcessor):
    """Publishes each span as it ends, with what the spans say that it is in. Neither waits nor raises."""

    def __init__(self, settings: GuardSettings) -> None:
        self._exporter = HaltlineSpanExporter(settings)
        self._above: OrderedDict[tuple[int, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def dropped(self) -> int:
        """Spans that could not be read, or that the broker did not take."""
        return self._exporter.dropped

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Remembers what the span above says of conversation and agent."""
        try:
            above = get_current_span(parent_context)
            identity = self._identity_of(above.get_span_context(), getattr(above, "attributes", None) or {})
            key = _key(span.get_span_context())
            with self._lock:
                self._above[key] = identity
                if len(self._above) > _MAX_OPEN:
                    self._above.popitem(last=False)
        except Exception:  # nothing of ours may break an agent
            log.exception("haltline: the start of a span could not be published")

    def on_end(self, span: ReadableSpan) -> None:
        """Hands it over to the producer's bounded queue."""
        try:
            with self._lock:
                above = self._above.pop(_key(span.get_span_context()), {})
            if otel.of_agents([span_of(span)]):
                self._exporter.tell_alone(span_of(span, _inherited(span.attributes or {}, above)))
        except Exception:  # as above
            log.exception("haltline: the end of a span could not be published")

    def shutdown(self) -> None:
        """Waits for what is under way, for five seconds at most."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Waits for what is under way. False: not all of it has arrived."""
        return self._exporter.force_flush(timeout_millis)

    def _identity_of(self, context: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
        own = {name: attributes[name] for name in otel.INHERITED if name in attributes}
        with self._lock:
            above = self._above.get(_key(context), {})
        return own | _inherited(own, above)


def watched(provider: TracerProvider, settings: GuardSettings) -> TracerProvider:
    """The provider, of whose spans each is published as it ends."""
    provider.add_span_processor(HaltlineSpanProcessor(settings))
    return provider


def span_of(span: ReadableSpan, more: Mapping[str, Any] | None = None) -> JsonObject:
    """A span of the SDK as OTLP/JSON has it."""
    context: Any = span.get_span_context()
    status: Status = span.status
    attributes = dict(span.attributes or {}) | dict(more or {})
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "parentSpanId": f"{span.parent.span_id:016x}" if span.parent is not None else "",
        "name": span.name,
        "kind": span.kind.value + 1,  # the SDK counts from 0, where OTLP has "unspecified"
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": [{"key": name, "value": value_of(value)} for name, value in attributes.items()],
        "status": {"code": _CODES[status.status_code], "message": status.description or ""},
    }


def value_of(value: object) -> JsonObject:
    """An attribute's value as OTLP/JSON has it."""
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
    """What a span has from above: the conversation; and the agent, unless it names one by id or by name."""
    conversation, *agent = otel.INHERITED
    names = [*([] if conversation in own else [conversation]), *([] if any(n in own for n in agent) else agent)]
    return {name: above[name] for name in names if name in above}


def _key(context: Any) -> tuple[int, int]:
    return (context.trace_id, context.span_id)
