"""The writer of the intake's events to the topic `actions`, which waits for the broker's confirmation."""

import asyncio
from collections.abc import Sequence
from typing import Final

import orjson
from prometheus_client import Counter

from haltline.interventions.agent.novelty import SeenBySession
from haltline.interventions.agent.producers.cleaning import cleaned
from haltline.interventions.agent.producers.publishing import Publisher
from haltline.interventions.agent.service.problems import Bad
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import otel, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.intake import otlp
from haltline.streams.intake.keys import Key
from haltline.streams.intake.requests import OWN_ROUTES
from haltline.streams.intake.shares import Room

AT_A_TIME: Final = 16
"""Records that are checked before other requests have their turn."""
MAX_UNCONFIRMED: Final = 80_000
"""The most events that wait for the broker: fewer than librdkafka keeps (100,000)."""
_SPAN: Final = [("content-type", otel.CONTENT_TYPE.encode())]


class TopicWriter:
    """Writes events and spans, redacted, and within the limits of the settings."""

    def __init__(self, settings: GuardSettings, accepted: Counter) -> None:
        """`accepted` counts the events that the broker has confirmed. Raises KafkaException."""
        self._settings = settings
        self._accepted = accepted
        self._seen = SeenBySession()
        self._unconfirmed = Room(MAX_UNCONFIRMED, "events that the broker has not confirmed")
        self._health: asyncio.Task[bool] | None = None
        self._publisher = None if settings.bootstrap is None else Publisher(settings)

    async def publish(self, events: Sequence[ActionEvent], key: Key) -> int:
        """Publish events.

        Returns their number when all are confirmed. Raises Away if one is not, Bad without a broker, and Busy for more
        than the key's share.
        """
        if self._publisher is None:
            raise Bad(501, f"expected {OWN_ROUTES}, as this intake decides in its own process and has no broker")
        with self._unconfirmed.taken(key, len(events)):
            published = [asyncio.wrap_future(one) for one in self._publisher.publish(events)]
            for outcome in await asyncio.gather(*published, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        self._accepted.inc(len(published))
        return len(published)

    async def spans_of(self, body: bytes, kind: str, key: Key) -> tuple[list[ActionEvent], list[str]]:
        """Return the events of an OTLP request, and the problems of its other spans.

        Spans outside of the key's scope are problems; those without generative AI are in neither. Other requests are
        served between. Raises Bad for an invalid request.
        """
        try:
            spans = otel.of_agents(otlp.spans_of(body, kind))
        except otlp.NotOtlp as bad:
            raise Bad(400, f"the body: {bad}") from None
        except ModuleNotFoundError:
            raise Bad(415, f"{kind}: needs opentelemetry-proto (haltline[intake]); or send JSON") from None
        good: list[ActionEvent] = []
        bad_spans: list[str] = []
        for number, span in enumerate(spans):
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
            try:
                event = self.checked(orjson.dumps(span), _SPAN)
                problem: object = key.outside_of_event(event)
            except (wire.InvalidRecord, orjson.JSONEncodeError) as error:
                problem = error
            if problem is None:
                good.append(event)
            else:
                bad_spans.append(f"span {span.get('spanId', number)!r:.40}: {problem}")
        return good, bad_spans

    def checked(self, value: bytes, headers: list[tuple[str, bytes]]) -> ActionEvent:
        """Return one record as it may be published. Raises InvalidRecord."""
        return cleaned(wire.decode_event(value, headers), self._settings, self._seen)

    async def healthy(self) -> bool | None:
        """Return whether the broker answers and has the topic; None: there is no broker in mode local."""
        if self._publisher is None:
            return None
        if self._health is None or self._health.done():  # one question for all who ask: anybody may
            self._health = asyncio.create_task(asyncio.to_thread(self._publisher.healthy))
        return await asyncio.shield(self._health)

    async def close(self) -> None:
        """Wait for pending records, and close."""
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.close)
