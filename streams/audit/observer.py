"""What a sink reports of its work, for metrics."""

from collections.abc import Mapping

from haltline.streams.audit.compaction import Compacted
from haltline.streams.audit.writer import Place


class SinkObserver:
    """Is told by the sink's thread; must be quick, and must not raise. This one passes over all of it."""

    def on_commit(self, rows: Mapping[str, int], seconds: float) -> None:
        """So many rows by topic are in the table, after so long."""

    def on_skipped(self, topic: str, records: int) -> None:
        """Records that were read and dropped, because the table held them or another sink took over."""

    def on_unreadable(self, topic: str, records: int) -> None:
        """Records that were kept as bytes, because they could not be decoded."""

    def on_lost(self, place: Place, records: int) -> None:
        """Offsets that the broker had deleted before they were read."""

    def on_position(self, place: Place, next_offset: int, end_offset: int, last_record_ms: int | None = None) -> None:
        """How far a partition is written, where it ends, and the time of the last record that is written."""

    def on_assigned(self, places: frozenset[Place]) -> None:
        """These partitions are this sink's now."""

    def on_compacted(self, done: Compacted | Exception, seconds: float) -> None:
        """Small files were put together beside the sink, or that failed, after so long."""
