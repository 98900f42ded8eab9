"""Entries of the control topic, each with the owner that wrote it; what lands too late is displaced again.

Of a compacted topic the last record of a key is what holds, and what a replaced owner had sent may land behind what the
next one has written. So each entry carries its `Owner`, as states do (`haltline.streams.runtime.changelog`), and what
counts follows from the order of the log: an entry is late if one of a later claim stands before it under its key. The
owner of the key's partition, by that claim or a later one, then writes anew the entry that counts, as it was. Claims of
another changelog cannot be compared, so each entry names that too, by its topic's name and id.

Nothing has to be compared with a state: whatever the replaced owner had not committed is processed again by the next
one, whose entries are behind its claim. Every worker reads the whole topic, so that whoever takes over knows of late
entries too. An entry without an owner (of an older release), or of another changelog, always counts. The seal of what
is written anew is the one that it had: nothing is sealed that this process has not decided.

The window that remains: an entry that lands when `_KEYS` other keys have newer ones; and, until the owner has read it,
what a late one says. Where the cluster tells no ids of topics, a changelog must not be recreated without `control`.
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
"""Where the owner's claim stands: the topic's name, and its id where the cluster tells it."""

_KEYS: Final = 20_000
"""Of so many the last entry is kept, some 20 MB; and of so many records before the topic's end it begins to read."""
_NOT_ALLOWED: Final = (
    "expected permission to read it, got none: what replaced workers write there too late stays. To do: "
    "haltline topics acls"
)

_Headers = Sequence[tuple[str, bytes | None]]

log = logging.getLogger(__name__)


class _Entry(NamedTuple):
    """The last one that counts, of a key."""

    owner: Owner
    value: bytes | None
    headers: _Headers
    """Without those of the owner."""
    is_sent: bool
    """By this process, and known before it is read."""


class ControlEntries:
    """An `Outbox` for what is sent with `outbox`, and a reader of the topic. Everything is called in the event loop.

    `topic` is empty where there is none; `changelog` is the value of CHANGELOG_HEADER. `open_reader` makes a
    `SourceReader` of topics; `on_failure` is called with what cannot be gone on after.
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
        self._last: dict[bytes, _Entry] = {}  # the longest unchanged first
        self._late: set[bytes] = set()

    def partitions(self, topic: str) -> int:
        """How many the topic has. Raises KnownFailure when there is no such topic."""
        return self._outbox.partitions(topic)

    def send(self, topic: str, *, key: bytes | None, value: bytes | None, headers: _Headers = ()) -> None:
        """Hands one record over, an entry with its owner. Raises DeliveryFailed."""
        owner = self._owner_of(key) if topic == self._topic and key is not None else None
        if key is not None and owner is not None:
            last = self._last.get(key)
            if last is None or last.owner.claim <= owner.claim:
                self._keep(key, _Entry(owner, value, headers, is_sent=True))
            headers = (*headers, (OWNER_HEADER, owner.encode()), (CHANGELOG_HEADER, self._changelog))
        self._outbox.send(topic, key=key, value=value, headers=headers)

    async def follow(self, ends: Callable[[Collection[Partition]], Mapping[Partition, int]]) -> None:
        """Begin to read. `ends` answers where partitions end; it may wait. Raises KafkaException, KnownFailure."""
        if not self._topic:
            return
        count = await asyncio.to_thread(self._outbox.partitions, self._topic)
        found = await asyncio.to_thread(ends, [(self._topic, number) for number in range(count)])
        self._reader.begin({place: max(0, end - _KEYS // count) for place, end in found.items()})

    def close(self) -> None:
        """End the reader."""
        self._reader.close()

    def take(self, fetched: Fetched) -> None:
        """Read entries, in the order of the log."""
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
        """Write anew what late entries have displaced, of the partitions that are owned. Raises DeliveryFailed."""
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
        """The claim of this process to the partition that has the state of `scope:id`; None: that is not its own."""
        scope_id = key.decode(errors="replace").partition(":")[2]
        return self._owned.owner_of(partition_of(scope_id, self._partitions))

    def _writer_of(self, record: RawRecord) -> Owner | None:
        """None: not known, or of another changelog."""
        return Owner.of(record) if (CHANGELOG_HEADER, self._changelog) in record.headers else None

    def _not_read(self, failure: BaseException) -> None:  # in the reader's thread
        code = failure.args[0].code() if isinstance(failure, KafkaException) else None
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            log.error("topic %s: %s", self._topic, _NOT_ALLOWED)
        else:
            self._on_failure(failure)
