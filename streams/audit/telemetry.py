"""The sink's metrics and health, on their own port."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Final

from haltline.streams.audit.compaction import Compacted
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.writer import Flushed, Place
from haltline.streams.runtime.health import HealthServer, Partition, Verdict
from haltline.streams.runtime.lag import LagWatch
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.service import STUCK_AFTER_S, verdict_of_loop

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 5.0


class SinkTelemetry:
    """Counts the reports of a sink, which come from its thread, and judges its health."""

    def __init__(self, metrics: Metrics) -> None:
        self.port: int | None = None
        """The address at which it is served, once it is."""
        self._last_turn_s = time.monotonic()
        self._assigned_now = 0
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

    def on_turn(self) -> None:
        """Note that the main loop runs."""
        self._last_turn_s = time.monotonic()

    def on_flushed(self, flushed: Flushed, seconds: float) -> None:
        """Count the rows of a flush, and what it dropped."""
        for counter, counts in (
            (self._rows, flushed.rows), (self._unreadable, flushed.unreadable), (self._skipped, flushed.dropped),
        ):  # fmt: skip
            for topic, count in counts.items():
                counter[topic,].inc(count)
        if flushed.rows:
            self._commits.inc()
            self._commit_seconds.observe(seconds)

    def on_skipped(self, topic: str, records: int) -> None:
        """Count records read and not written."""
        self._skipped[topic,].inc(records)

    def on_lost(self, place: Place, records: int) -> None:
        """Count offsets deleted before they were read."""
        self._lost[place.topic,].inc(records)

    def on_position(self, place: Place, next_offset: int, last_record_ms: int | None = None) -> None:
        """Record the position of a partition: its first offset not written, and the time of the last written record."""
        self._positions = {**self._positions, (place.topic, place.partition): (next_offset, last_record_ms)}

    def on_compacted(self, done: Compacted) -> None:
        """Record the end of a compaction."""
        self._compactions["failed" if done.failure else "done" if done.removed else "not needed",].inc()
        if not done.failure:
            self._files.set(done.files)
        self._compaction_seconds.observe(done.seconds)

    def on_assigned(self, places: frozenset[Place]) -> None:
        """Record the sink's partitions. Other sinks report theirs."""
        kept = {(place.topic, place.partition) for place in places}
        self._positions = {at: position for at, position in self._positions.items() if at in kept}
        for topic in {place.topic for place in places}:
            for counter in (self._lost, self._skipped, self._unreadable):
                counter[topic,].inc(0)  # so that the first one shows as an increase
        if places:
            self._rebalances.inc()
        self._assigned_now = len(places)
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

    def verdict(self, lag_records: int = 0) -> Verdict:
        """Return a verdict: alive while the main loop runs; ready while partitions are assigned too."""
        silent_s = time.monotonic() - self._last_turn_s
        found = verdict_of_loop(silent_s, "sink", self._assigned_now)
        if self._blind is None:
            return replace(found, lag_records=lag_records)
        reason = f"the ends of partitions are not followed any more: {self._blind!r}"
        return replace(found, alive=False, ready=False, reasons=(reason, *found.reasons), lag_records=lag_records)


@contextmanager
def telemetry(settings: AuditSettings) -> Iterator[SinkTelemetry]:
    """Serve a sink's telemetry as set in the settings. Raises OSError when the port is not available."""
    metrics = Metrics("audit")
    observer = SinkTelemetry(metrics)
    if settings.metrics_port is None:
        yield observer
        return
    # The consumer's own end offsets come with its fetches, and do not change without them.
    watch = LagWatch(
        {**settings.client, "bootstrap.servers": settings.bootstrap},
        observer,
        metrics,
        interval_s=_LOOK_EVERY_S,
        stuck_after_s=STUCK_AFTER_S,
        on_failure=observer.on_blind,
    )

    def verdict() -> Verdict:
        return observer.verdict(watch.verdict().lag_records)

    with closing(watch):
        server = HealthServer(
            settings.metrics_host, settings.metrics_port, verdict=verdict, exposition=metrics.exposition
        )
        with closing(server):
            observer.port = server.port
            _log.info("audit sink: serves /metrics, /healthz and /readyz on port %d", server.port)
            yield observer
