"""Logs of a broker outage: at its start, then at intervals, and at its end.

librdkafka reports the end of a connection, not its return, so the reader polls the broker.
"""

import logging
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from haltline.interventions.outage import Outage
from haltline.streams.system import REAL, System

IS_AWAY: Final = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
"""librdkafka's errors for an unreachable broker; librdkafka itself reconnects."""

_ANSWER_WITHIN_S: Final = 0.5


class BrokerOutage:
    """The broker outages that one reader logs."""

    def __init__(self, log: logging.Logger, who: str, *, system: System = REAL) -> None:
        self._outage = Outage(log, f"{who}: the broker", now_s=system.monotonic)
        self._suspect = False

    def is_outage(self, error: KafkaError) -> bool:
        """Record an error of the client, from any thread. Returns whether it means a broker outage."""
        if error.code() not in IS_AWAY:
            return False
        self._suspect = True
        return True

    def require_temporary(self, error: KafkaError) -> None:
        """Raise KafkaException for an error after which the client does not continue by itself."""
        if error.fatal() or not (error.retriable() or self.is_outage(error)):
            raise KafkaException(error)

    def look(self, consumer: Consumer, topic: str) -> None:
        """Request the metadata of a topic during an outage. Call it in the reader's loop."""
        if not self._suspect:
            return
        try:
            consumer.list_topics(topic, timeout=_ANSWER_WITHIN_S)
        except KafkaException as failed:
            self._outage.away(failed.args[0].str())
        else:
            self._suspect = False
            self._outage.back()
