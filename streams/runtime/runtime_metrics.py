"""The runtime's own metrics, independent of the processor."""

from collections.abc import Collection

from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.runtime.checkpoint import CheckpointResult
from haltline.streams.runtime.metrics import Metrics


class RuntimeMetrics:
    """The metrics of the runtime, looked up once."""

    def __init__(self, metrics: Metrics) -> None:
        self.events = metrics.children("events_processed_total")
        self.rebalances = metrics.counter("rebalances_total")
        self._seconds = metrics.histogram("checkpoint_duration_seconds")
        self._state_bytes = metrics.counter("state_bytes_total")
        self._states = metrics.counter("states_written_total")
        self._sessions = metrics.gauge("sessions")
        self._ready = metrics.gauge("ready")
        self._assigned = metrics.gauge("assigned_partitions")
        self._remaining = metrics.gauge("recovery_remaining_records")

    def checkpointed(self, written: CheckpointResult) -> None:
        """Update the metrics after a checkpoint."""
        self._seconds.observe(written.seconds)
        self._state_bytes.inc(written.state_bytes)
        self._states.inc(written.states)

    def recovery(self, ours: Collection[PartitionState], assigned: int, remaining: int) -> None:
        """Update the metrics of recovery; called periodically."""
        self._ready.set(bool(ours))
        self._assigned.set(assigned)
        self._remaining.set(0 if ours else remaining)
        self._sessions.set(sum(len(part.values) for part in ours))
