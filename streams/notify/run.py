"""A notifier as a process."""

import logging
from typing import Final

from confluent_kafka import KafkaException

from haltline.streams.kafka.log_reader import NoSuchTopic, Unreachable
from haltline.streams.notify.config import Config, NotifierSettings
from haltline.streams.notify.notifier import Notifier
from haltline.streams.runtime.health import HealthServer
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.stop_signals import stopped_by_signals

_log = logging.getLogger(__name__)

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1


def run_notifier(settings: NotifierSettings, config: Config, metrics_at: tuple[str, int]) -> int:
    """Run until SIGTERM or SIGINT. Call it in the main thread.

    Returns 0 after a clean stop, and 1 after a failure, which the log names; the next start goes on with what is not
    recorded. Raises ValueError when a channel's files cannot be used, OSError when the port cannot be had.
    """
    metrics = Metrics("notify")
    notifier = Notifier(settings, config, metrics)
    host, port = metrics_at
    server = HealthServer(host, port, verdict=notifier.verdict, exposition=metrics.exposition)
    _log.info("notify: serves /metrics, /healthz and /readyz on port %d", server.port)
    try:
        with stopped_by_signals(notifier.stop, "notify"):
            notifier.run()
    except (KafkaException, NoSuchTopic, Unreachable, RuntimeError) as error:
        _log.error("%s: %s (Kafka %s)", type(error).__name__, error, settings.bootstrap)
        return EXIT_FAILED
    finally:
        server.close()
    return EXIT_OK
