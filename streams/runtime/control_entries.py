"""The entries of the control topic, each with the owner that wrote it; a late entry is overwritten again.

On a compacted topic the last record of a key counts, and a record of a replaced owner may follow one of the next owner.
So each entry carries its `Owner`, as states do (`haltline.streams.runtime.changelog`), and the order of the log
determines what counts: an entry is late if an entry with a later claim precedes it under its key. The owner of the
key's partition, by that claim or a later one, then rewrites the entry that counts, unchanged. Claims of different
changelogs cannot be compared, so each entry also names its changelog, by the topic's name and id.

No comparison with a state is needed: what the replaced owner had not committed is processed again by the next one,
whose entries follow its claim. Every worker reads the whole topic, so that the next owner knows of late entries too. An
entry without an owner (from an older release), or of another changelog, always counts. A rewritten entry keeps its
seal: this process seals only its own decisions.

The remaining risks: a late entry after `_KEYS` other keys have newer ones, and the time until the owner has read a late
entry. Where the cluster reports no topic ids, a changelog must not be recreated without `control`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from haltline.schemas.partitioner import partition_of
from haltline.streams.runtime.changelog import OWNER_HEADER, Owner
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.ports import Outbox
from haltline.streams.runtime.processor_api import RawRecord
from haltline.streams.runtime.source_reader import Fetched, SourceReader

CHANGELOG_HEADER: Final = "haltline-changelog"
"""The header that names the changelog of the owner's claim: the topic's name, and its id if the cluster reports it."""

_KEYS: Final = 20_000
"""The number of keys whose last entry is kept, some 20 MB, and of records before the topic's end at which reading
begins."""
_NOT_ALLOWED: Final = (
    "expected permission to read it, got none: what replaced workers write there too late stays. To do: "
    "haltline topics acls"
)


_Headers = Sequence[tuple[str, bytes | None]]

log = logging.getLogger(__name__)


class _Entry(NamedTuple):
    """The last entry of a key that counts."""

    owner: Owner
    value: bytes | None
    headers: _Headers
    """The headers, without those of the owner."""
    is_sent: bool
    """Whether this process sent it, and has not read it yet."""


class ControlEntries:
    """An `Outbox` that wraps `outbox`, and a reader of the topic. All methods are called in the event loop.

    `topic` is empty if there is none. `changelog` is the value of CHANGELOG_HEADER. `open_reader` makes a
    `SourceReader` of topics; `on_failure` is called with errors that are fatal.
    """

    def __init__(
        self,
        topic: str,
        outbox: Outbox,
        owned: OwnedPartitions,
        *,
        changelog: str,
        partitions: int,
        open_reader: Callable[..., SourceReader],
        on_failure: Callable[[BaseException], object],
    ) -> None:
        self._topic = topic
        self._outbox = outbox
        self._owned = owned
        self._changelog = changelog.encode()
        self._partitions = partitions
        self._on_failure = on_failure
        self._reader = open_reader([topic] if topic else [], self.take, on_failure=self._not_read)
        self._last: dict[bytes, _Entry] = {}  # least recently changed first
        self._late: set[bytes] = set()

    def partitions(self, topic: str) -> int:
        """Return the topic's number of partitions. Raises KnownFailure when there is no such topic."""
        return self._outbox.partitions(topic)

    def send(self, topic: str, *, key: bytes | None, value: bytes | None, headers: _Headers = ()) -> None:
        """Send one record, with its owner if it is an entry. Raises DeliveryFailed."""
        owner = self._owner_of(key) if topic == self._topic and key is not None else None
        if key is not None and owner is not None:
            last = self._last.get(key)
            if last is None or last.owner.claim <= owner.claim:
                self._keep(key, _Entry(owner, value, headers, is_sent=True))
            headers = (*headers, (OWNER_HEADER, owner.encode()), (CHANGELOG_HEADER, self._changelog))
        self._outbox.send(topic, key=key, value=value, headers=headers)

    async def follow(self, ends: Callable[[Collection[Partition]], Mapping[Partition, int]]) -> None:
        """Start reading.

        `ends` returns end offsets of partitions, and may block. Raises KafkaException, KnownFailure.
        """
        if not self._topic:
            return
        count = await asyncio.to_thread(self._outbox.partitions, self._topic)
        found = await asyncio.to_thread(ends, [(self._topic, number) for number in range(count)])
        self._reader.begin({place: max(0, end - _KEYS // count) for place, end in found.items()})

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def take(self, fetched: Fetched) -> None:
        """Process entries, in the order of the log."""
        for record in fetched.records:
            key, owner = record.key, self._writer_of(record)
            if key is None:
                continue
            last = self._last.get(key)
            if owner is None:
                self._last.pop(key, None)
            elif last is not None and owner.claim < last.owner.claim:
                self._late.add(key)
                continue
            elif last is None or not last.is_sent or owner != last.owner:
                headers = [header for header in record.headers if header[0] not in (OWNER_HEADER, CHANGELOG_HEADER)]
                self._keep(key, _Entry(owner, record.value, headers, is_sent=False))
            self._late.discard(key)

    def mend(self) -> None:
        """Rewrite the entries that late ones have overwritten, in owned partitions. Raises DeliveryFailed."""
        for key in [*self._late]:
            last, owner = self._last[key], self._owner_of(key)
            if owner is not None and last.owner.claim <= owner.claim:
                self._late.discard(key)
                log.warning("%s: %r is written again, behind an entry of a replaced worker", self._topic, key)
                self.send(self._topic, key=key, value=last.value, headers=last.headers)

    def _keep(self, key: bytes, entry: _Entry) -> None:
        self._last.pop(key, None)
        self._last[key] = entry
        if len(self._last) > _KEYS:
            oldest = next(iter(self._last))
            del self._last[oldest]
            self._late.discard(oldest)

    def _owner_of(self, key: bytes) -> Owner | None:
        """Return this process's claim to the partition of the state `scope:id`; None if it does not own it."""
        scope_id = key.decode(errors="replace").partition(":")[2]
        return self._owned.owner_of(partition_of(scope_id, self._partitions))

    def _writer_of(self, record: RawRecord) -> Owner | None:
        """Return the owner that wrote the record; None if it is unknown, or of another changelog."""
        return Owner.of(record) if (CHANGELOG_HEADER, self._changelog) in record.headers else None

    def _not_read(self, failure: BaseException) -> None:  # in the reader's thread
        code = failure.args[0].code() if isinstance(failure, KafkaException) else None
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            log.error("topic %s: %s", self._topic, _NOT_ALLOWED)
        else:
            self._on_failure(failure)
