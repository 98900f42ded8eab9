"""A process with one loop, which runs until a signal, with its metrics and health."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import NoSuchTopic, Unreachable
from haltline.streams.runtime.health import HealthServer, Verdict
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.stop_signals import stopped_by_signals

STUCK_AFTER_S: Final = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """The settings of a service that reads a topic in a consumer group."""

    bootstrap: str
    topics: Topics = field(default_factory=Topics)
    group: str
    client: Mapping[str, ClientSetting] = field(default_factory=dict)
    """librdkafka settings of every connection, for encryption and credentials."""
    fetch_wait_ms: int = 500
    offset_reset: str = "earliest"
    """The offset at which a new group begins."""

    def consumer(self, on_error: Callable[[KafkaError], object]) -> dict[str, Any]:
        """Return librdkafka's settings of the group's consumer; `on_error` is called within a poll."""
        return {
            **self.client,
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": self.offset_reset,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": self.fetch_wait_ms,
            "error_cb": on_error,
        }


class Service(Protocol):
    """A service with a loop."""

    def run(self) -> None:
        """Run until `stop`."""

    def stop(self) -> None:
        """End the loop; may be called from any thread."""

    def verdict(self) -> Verdict:
        """Return whether it is alive and ready."""


def run_service(service: Service, name: str, metrics: Metrics, metrics_at: tuple[str, int], bootstrap: str) -> int:
    """Run a service until SIGTERM or SIGINT. Call it in the main thread.

    Returns 0 after a clean stop, and 1 after a failure, which is logged. Raises OSError when the port is in use.
    """
    server = HealthServer(*metrics_at, verdict=service.verdict, exposition=metrics.exposition)
    _log.info("%s: serves /metrics, /healthz and /readyz on port %d", name, server.port)
    try:
        with stopped_by_signals(service.stop, name):
            service.run()
    except (KafkaException, NoSuchTopic, Unreachable, RuntimeError) as error:
        _log.error("%s: %s (Kafka %s)", type(error).__name__, error, bootstrap)
        return 1
    finally:
        server.close()
    return 0


def verdict_of_loop(silent_s: float, who: str, partitions: int, *, notes: Sequence[str] = ()) -> Verdict:
    """Return a verdict: alive while the loop runs (last `silent_s` ago); ready if partitions are assigned too."""
    is_alive = silent_s < STUCK_AFTER_S
    reasons = [] if is_alive else [f"the {who} has not come round for {silent_s:.0f} s"]
    if not partitions:
        reasons.append("no partitions are assigned")
    return Verdict(
        alive=is_alive,
        ready=not reasons,
        reasons=tuple(reasons),
        partitions=partitions,
        lag_records=0,
        stuck=(),
        notes=tuple(notes),
    )
