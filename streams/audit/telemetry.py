"""The sink's metrics and health, on their own port."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from haltline.streams.audit.compaction import Compacted
from haltline.streams.audit.observer import SinkObserver
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.audit.writer import Place
from haltline.streams.runtime.health import HealthServer, Partition, Verdict
from haltline.streams.runtime.lag import LagWatch
from haltline.streams.runtime.metrics import Metrics

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 5.0


class SinkTelemetry(SinkObserver):
    """Counts a sink's reports, and judges its health."""

    def __init__(self, metrics: Metrics, stuck_after_s: float) -> None:
        self.port: int | None = None
        """The address at which it is served, once it is."""
        self._stuck_after_s = stuck_after_s
        self._sink: AuditSink | None = None
        self._lag: dict[Place, int] = {}
        self._positions: Mapping[Partition, tuple[int, int | None]] = {}
        self._blind: BaseException | None = None
        self._rows = metrics.children("sink_rows_total")
        self._skipped = metrics.children("sink_skipped_rows_total")
        self._unreadable = metrics.children("sink_unreadable_rows_total")
        self._lost = metrics.children("sink_lost_records_total")
        self._commits = metrics.counter("sink_commits_total")
        self._commit_seconds = metrics.histogram("sink_commit_seconds")
        self._compactions = metrics.children("sink_compactions_total")
        self._compaction_seconds = metrics.histogram("sink_compaction_seconds")
        self._files = metrics.gauge("sink_table_files")
        self._rebalances = metrics.counter("rebalances_total")
        self._assigned = metrics.gauge("assigned_partitions")
        self._ready = metrics.gauge("ready")
        self._lag_records = metrics.gauge("consumer_lag_records")
        self._committed = metrics.gauge("consumer_committed_offset")

    def follow(self, sink: AuditSink) -> None:
        """Set the sink to judge."""
        self._sink = sink

    def on_commit(self, rows: Mapping[str, int], seconds: float) -> None:
        """Count one commit, with rows by topic."""
        for topic, count in rows.items():
            self._rows[topic,].inc(count)
        self._commits.inc()
        self._commit_seconds.observe(seconds)

    def on_skipped(self, topic: str, records: int) -> None:
        """Count records read and not written."""
        self._skipped[topic,].inc(records)

    def on_unreadable(self, topic: str, records: int) -> None:
        """Count records kept as bytes."""
        self._unreadable[topic,].inc(records)

    def on_lost(self, place: Place, records: int) -> None:
        """Count offsets deleted before they were read."""
        self._lost[place.topic,].inc(records)

    def on_position(self, place: Place, next_offset: int, end_offset: int, last_record_ms: int | None = None) -> None:
        """Record the position of a partition."""
        self._positions = {**self._positions, (place.topic, place.partition): (next_offset, last_record_ms)}
        self._lag[place] = max(0, end_offset - next_offset)
        self._lag_records.labels(place.topic, str(place.partition)).set(self._lag[place])
        self._committed.labels(place.topic, str(place.partition)).set(next_offset)

    def on_compacted(self, done: Compacted | Exception, seconds: float) -> None:
        """Record the end of a compaction."""
        if isinstance(done, Compacted):
            self._compactions["done" if done.removed else "not needed",].inc()
            self._files.set(done.files)
        else:
            self._compactions["failed",].inc()
        self._compaction_seconds.observe(seconds)

    def on_assigned(self, places: frozenset[Place]) -> None:
        """Record the sink's partitions. Other sinks report theirs."""
        for place in self._lag.keys() - places:
            del self._lag[place]
            self._lag_records.remove(place.topic, str(place.partition))
            self._committed.remove(place.topic, str(place.partition))
        kept = {(place.topic, place.partition) for place in places}
        self._positions = {at: position for at, position in self._positions.items() if at in kept}
        for topic in {place.topic for place in places}:
            for counter in (self._lost, self._skipped, self._unreadable):
                counter[topic,].inc(0)  # so that the first one shows as an increase
        if places:
            self._rebalances.inc()
        self._assigned.set(len(places))
        self._ready.set(bool(places))

    def positions(self) -> Mapping[Partition, tuple[int, int | None]]:
        """Return, by partition, the first offset not written, and the time of the last written record."""
        return self._positions

    def committed(self, partition: Partition) -> int | None:
        """Return the first offset not written: the sink commits to the table."""
        return self._positions.get(partition, (None, None))[0]

    def recovered(self) -> bool:
        """Return True: a sink has no state of its own."""
        return True

    def on_blind(self, failure: BaseException) -> None:
        """Report that end offsets are no longer followed, so that a lag would go unnoticed."""
        self._blind = failure

    def verdict(self) -> Verdict:
        """Return a verdict: alive while the main loop runs; ready while partitions are assigned too."""
        silent_s = time.monotonic() - self._sink.last_turn_s if self._sink else 0.0
        is_alive = silent_s < self._stuck_after_s
        lag = dict(self._lag)
        assigned = self._sink.assigned if self._sink else 0
        reasons = []
        if self._blind is not None:
            reasons.append(f"the ends of partitions are not followed any more: {self._blind!r}")
        if not is_alive:
            reasons.append(f"the sink has not come round for {silent_s:.0f} s: the broker or the table does not answer")
        if not assigned:
            reasons.append("no partitions are assigned")
        return Verdict(
            alive=is_alive and self._blind is None,
            ready=not reasons,
            reasons=tuple(reasons),
            partitions=assigned,
            lag_records=sum(lag.values()),
            stuck=(),
        )


@contextmanager
def telemetry(settings: AuditSettings) -> Iterator[SinkTelemetry]:
    """Serve a sink's telemetry as set in the settings. Raises OSError when the port is not available."""
    metrics = Metrics("audit")
    observer = SinkTelemetry(metrics, settings.stuck_after_s)
    if settings.metrics_port is None:
        yield observer
        return
    server = HealthServer(
        settings.metrics_host, settings.metrics_port, verdict=observer.verdict, exposition=metrics.exposition
    )
    observer.port = server.port
    _log.info("audit sink: serves /metrics, /healthz and /readyz on port %d", server.port)
    # The consumer's own end offsets come with its fetches, and do not change without them.
    watch = LagWatch(
        {**settings.client, "bootstrap.servers": settings.bootstrap},
        observer,
        metrics,
        interval_s=_LOOK_EVERY_S,
        stuck_after_s=settings.stuck_after_s,
        on_failure=observer.on_blind,
    )
    try:
        yield observer
    finally:
        watch.close()
        server.close()
