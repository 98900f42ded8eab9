"""Retries of requests while the broker elects leaders and coordinators, which is temporary and no failure."""

from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from haltline.streams.system import REAL, System

_AGAIN_AFTER_S: Final = 0.05

T = TypeVar("T")

MOVING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # also from a broker that does not know a new topic yet
        KafkaError._UNKNOWN_PARTITION,  # and from a client that has just started
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,
    }
)
AWAY: Final = frozenset(
    {
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
    }
)
"""The errors of a broker that restarts. Callers that wait for its return pass these as `also`."""


def answered(ask: Callable[[], T], *, within_s: float, also: frozenset[int] = frozenset(), system: System = REAL) -> T:
    """Return the broker's answer. Raises KafkaException for a permanent error, and at the time limit."""
    deadline = system.monotonic() + within_s
    while True:
        try:
            return ask()
        except KafkaException as failed:
            code = failed.args[0].code()
            if not (code in MOVING or code in also) or system.monotonic() > deadline:
                raise
        system.sleep(_AGAIN_AFTER_S)
