"""What the connection's records are read as, and the producer that sends them."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import EARLIEST_MS

log: Final = logging.getLogger("haltline.agent")

QUEUE_RECORDS: Final = 20_000
_BATCHING_MS = 5
_QUEUE_KIB = 32 * 1024


def producer_of(settings: GuardSettings, common: Mapping[str, Any], on_error: Callable[[KafkaError], None]) -> Producer:
    """A producer with a bounded queue. Raises ValueError when librdkafka refuses the settings."""
    try:
        return Producer(
            {
                "linger.ms": 0 if settings.mode == "blocking" else _BATCHING_MS,
                "queue.buffering.max.messages": QUEUE_RECORDS,
                "queue.buffering.max.kbytes": _QUEUE_KIB,
                "delivery.timeout.ms": 120_000,
                **common,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "acks": "all",
                "error_cb": on_error,
            },
            logger=log,
        )
    except KafkaException as refused:
        raise ValueError(f"bootstrap {settings.bootstrap!r}: librdkafka refuses the settings: {refused}") from refused


def control_record(key: str, value: bytes) -> ControlRecord | None:
    """The entry; one that cannot be read (of a newer version?) holds as frozen: better a call too few than too many."""
    try:
        return wire.decode(ControlRecord, value)
    except wire.InvalidRecord as bad:
        entry = frozen(key, "control_entry_unreadable", str(bad))
        if entry is not None:
            log.warning("haltline: the control entry %s cannot be read, and holds as frozen: %s", key, bad)
        return entry


def frozen(key: str, code: str, why: str) -> ControlRecord | None:
    """An entry of ours in place of one that cannot be taken for what it says; None: the key names nothing."""
    scope, _, scope_id = key.partition(":")
    if scope not in set(ScopeKind) or not scope_id:
        return None
    return ControlRecord(
        scope=ScopeKind(scope),
        id=scope_id,
        state=ControlState.FROZEN,
        code=code,
        reason=why,
        decision_id=f"{code} {key}",
        since=EARLIEST_MS,
    )
