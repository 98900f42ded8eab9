"""The sink's metrics and health, on a port of its own."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.audit.writer import Place
from haltline.streams.health import HealthServer, Verdict
from haltline.streams.metrics import Metrics


class SinkTelemetry:
    """Counts what a sink tells, and judges whether it is well."""

    def __init__(self, metrics: Metrics, stuck_after_s: float) -> None:
        self.port: int | None = None
        """Where it is served, once it is."""
        self._stuck_after_s = stuck_after_s
        self._sink: AuditSink | None = None
        self._lag: dict[Place, int] = {}
        self._rows = metrics.children("sink_rows_total")
        self._skipped = metrics.children("sink_skipped_rows_total")
        self._unreadable = metrics.children("sink_unreadable_rows_total")
        self._lost = metrics.children("sink_lost_records_total")
        self._commits = metrics.counter("sink_commits_total")
        self._commit_seconds = metrics.histogram("sink_commit_seconds")
        self._rebalances = metrics.counter("rebalances_total")
        self._assigned = metrics.gauge("assigned_partitions")
        self._ready = metrics.gauge("ready")
        self._lag_records = metrics.gauge("consumer_lag_records")
        self._committed = metrics.gauge("consumer_committed_offset")

    def follow(self, sink: AuditSink) -> None:
        """Judge this sink from now on."""
        self._sink = sink

    def on_commit(self, rows: Mapping[str, int], seconds: float) -> None:
        """One commit, with rows of these topics."""
        for topic, count in rows.items():
            self._rows[topic,].inc(count)
        self._commits.inc()
        self._commit_seconds.observe(seconds)

    def on_skipped(self, topic: str, records: int) -> None:
        """Records that were read and not written."""
        self._skipped[topic,].inc(records)

    def on_unreadable(self, topic: str, records: int) -> None:
        """Records kept as bytes."""
        self._unreadable[topic,].inc(records)

    def on_lost(self, place: Place, records: int) -> None:
        """Offsets that were gone before they were read."""
        self._lost[place.topic,].inc(records)

    def on_position(self, place: Place, next_offset: int, end_offset: int) -> None:
        """How far a partition is written."""
        self._lag[place] = max(0, end_offset - next_offset)
        self._lag_records.labels(place.topic, str(place.partition)).set(self._lag[place])
        self._committed.labels(place.topic, str(place.partition)).set(next_offset)

    def on_assigned(self, places: frozenset[Place]) -> None:
        """The partitions that are this sink's now. What is another's is another's to tell."""
        for place in self._lag.keys() - places:
            del self._lag[place]
            self._lag_records.remove(place.topic, str(place.partition))
            self._committed.remove(place.topic, str(place.partition))
        if places:
            self._rebalances.inc()
        self._assigned.set(len(places))
        self._ready.set(bool(places))

    def verdict(self) -> Verdict:
        """Alive while the main loop comes round; ready while partitions are assigned too."""
        silent_s = time.monotonic() - self._sink.last_turn_s if self._sink else 0.0
        alive = silent_s < self._stuck_after_s
        lag = dict(self._lag)
        assigned = self._sink.assigned if self._sink else 0
        reasons = []
        if not alive:
            reasons.append(f"the sink has not come round for {silent_s:.0f} s: the broker or the table does not answer")
        if not assigned:
            reasons.append("no partitions are assigned")
        return Verdict(
            alive=alive,
            ready=not reasons,
            reasons=tuple(reasons),
            partitions=assigned,
            lag_records=sum(lag.values()),
            stuck=(),
        )


@contextmanager
def telemetry(settings: AuditSettings) -> Iterator[SinkTelemetry]:
    """A sink's telemetry, served where the settings say. Raises OSError when the port is not to be had."""
    metrics = Metrics()
    observer = SinkTelemetry(metrics, settings.stuck_after_s)
    if settings.metrics_port is None:
        yield observer
        return
    server = HealthServer(
        settings.metrics_host, settings.metrics_port, verdict=observer.verdict, exposition=metrics.exposition
    )
    observer.port = server.port
    try:
        yield observer
    finally:
        server.close()
