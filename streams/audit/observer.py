"""The reports of a sink on its work, for metrics."""

from collections.abc import Mapping

from haltline.streams.audit.compaction import Compacted
from haltline.streams.audit.writer import Place


class SinkObserver:
    """Receives reports from the sink's thread; must be fast, and must not raise. This one ignores them."""

    def on_commit(self, rows: Mapping[str, int], seconds: float) -> None:
        """Rows were committed (their number by topic), in `seconds` seconds."""

    def on_skipped(self, topic: str, records: int) -> None:
        """Records were read and dropped, because the table had them or another sink took over."""

    def on_unreadable(self, topic: str, records: int) -> None:
        """Records were kept as bytes, because they could not be decoded."""

    def on_lost(self, place: Place, records: int) -> None:
        """The broker deleted offsets before they were read."""

    def on_position(self, place: Place, next_offset: int, end_offset: int, last_record_ms: int | None = None) -> None:
        """The position of a partition: next offset to write, end offset, and the time of the last written record."""

    def on_assigned(self, places: frozenset[Place]) -> None:
        """The sink's assigned partitions changed to these."""

    def on_compacted(self, done: Compacted | Exception, seconds: float) -> None:
        """A compaction ended, or failed, after `seconds` seconds."""
