"""Says that the broker of a consumer is away: once, then at intervals, and once that it answers again.

librdkafka tells when a connection ends, not when it is back: so the broker is asked, by whoever reads.
"""

import logging
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from haltline.interventions.outage import Outage
from haltline.streams.system import REAL, System

IS_AWAY: Final = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
"""What librdkafka says of a broker that cannot be reached; it goes on by itself when that is over."""

_ANSWER_WITHIN_S: Final = 0.5


class BrokerOutage:
    """What one reader says of its broker."""

    def __init__(self, log: logging.Logger, who: str, *, system: System = REAL) -> None:
        self._outage = Outage(log, f"{who}: the broker", now_s=system.monotonic)
        self._suspect = False

    def is_outage(self, error: KafkaError) -> bool:
        """Takes in an error of the client, from any thread. Whether it is one of a broker that is away."""
        if error.code() not in IS_AWAY:
            return False
        self._suspect = True
        return True

    def look(self, consumer: Consumer, topic: str) -> None:
        """In the loop of the reader: while something speaks against the broker, it is asked for a topic."""
        if not self._suspect:
            return
        try:
            consumer.list_topics(topic, timeout=_ANSWER_WITHIN_S)
        except KafkaException as failed:
            self._outage.away(failed.args[0].str())
        else:
            self._suspect = False
            self._outage.back()
