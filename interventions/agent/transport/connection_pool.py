"""Which connection to Kafka a guard uses: one that its process has already, if the settings for Kafka are the same."""

import os
import threading
import weakref
from typing import Any

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.kafka_connection import KafkaConnection

_hubs: "weakref.WeakValueDictionary[tuple[Any, ...], KafkaConnection]" = weakref.WeakValueDictionary()
_hubs_lock = threading.Lock()
_of_the_parent: list[KafkaConnection] = []
"""In a fork: ending the parent's connections would wait for threads that are not there."""


def connection_of(settings: GuardSettings) -> KafkaConnection:
    """The connection that this process has with these settings already, or a new one. Raises ValueError as Hub does."""
    key = (
        settings.bootstrap,
        settings.topic_prefix,
        settings.mode == "blocking",
        settings.fetch_wait_ms,
        settings.spool_dir,
        settings.spool_max_mb,
        settings.verify_key,
        tuple(sorted((name, str(value)) for name, value in settings.kafka.items())),
    )
    with _hubs_lock:
        hub = _hubs.get(key)
        if hub is None or hub.ended:  # its last user has just left it
            hub = _hubs[key] = KafkaConnection(settings)
        return hub


def _after_fork() -> None:
    global _hubs_lock  # noqa: PLW0603 - another thread of the parent may have held it
    _hubs_lock = threading.Lock()
    _of_the_parent.extend(_hubs.values())
    _hubs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
