"""The audit sink as a process."""

import logging

from confluent_kafka import KafkaException
from deltalake.exceptions import DeltaError

from haltline.schemas.keys import BadKey
from haltline.streams.audit import QueryFailed
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.audit.table import AuditTable, TableConflict
from haltline.streams.audit.telemetry import telemetry
from haltline.streams.audit.writer import AnotherLog
from haltline.streams.stop_signals import stopped_by_signals

_log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1


def run_audit(settings: AuditSettings, *, table: AuditTable | None = None) -> int:
    """Run a sink until SIGTERM or SIGINT, then write its buffer. Call it in the main thread.

    Returns 0 after a clean stop, and 1 after a failure, which is logged. The next start continues at the table's end in
    any case.
    """
    try:
        with telemetry(settings) as observer:
            sink = AuditSink(settings, table=table, observer=observer)
            with stopped_by_signals(sink.stop, "audit sink"):
                sink.run()
    except (AnotherLog, BadKey, QueryFailed, TableConflict, KafkaException, DeltaError, OSError) as error:
        _log.error(
            "audit sink: %s: %s (table %s, Kafka %s)", type(error).__name__, error, settings.table, settings.bootstrap
        )
        return EXIT_FAILED
    return EXIT_OK
