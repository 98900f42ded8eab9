"""Entries of the control topic: those in force, and those that a worker rewrites. Histories are simulated."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from haltline.schemas.partitioner import partition_of
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.runtime import control_entries
from haltline.streams.runtime.changelog import OWNER_HEADER, Owner
from haltline.streams.runtime.control_entries import CHANGELOG_HEADER, ControlEntries
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.source_reader import Fetched, SourceReader

CONTROL = "haltline.control"
KEY = b"session:42"
CHANGELOG = "changelog id"
PARTITIONS = 4
SEAL = ("seal", b"of a worker")
Headers = Sequence[tuple[str, bytes | None]]


def owned(offset: int, changelog: str = CHANGELOG) -> Headers:
    """The headers of an owner with its claim at this offset."""
    return (OWNER_HEADER, claim(offset).encode()), (CHANGELOG_HEADER, changelog.encode())


def claim(offset: int) -> Owner:
    return Owner(offset, bytes([offset % 256]) * 16)


class Worker:
    """One that owns the key's partition by a claim, or does not; the topic is in the test's hands."""

    def __init__(self, own: int | None) -> None:
        self.own = own
        self.read = 0
        self.sent: list[tuple[str, bytes | None, bytes | None, Headers]] = []
        self.failures: list[BaseException] = []
        self.on_failure: Callable[[BaseException], object] = lambda _: None
        self.entries = ControlEntries(
            CONTROL,
            self,
            cast(OwnedPartitions, self),
            changelog=CHANGELOG,
            partitions=PARTITIONS,
            open_reader=self.open_reader,
            on_failure=self.failures.append,
        )

    def open_reader(self, topics: list[str], _take: object, *, on_failure: Any) -> SourceReader:
        assert topics == [CONTROL]
        self.on_failure = on_failure
        return cast(SourceReader, None)

    def owner_of(self, partition: int) -> Owner | None:
        return claim(self.own) if self.own is not None and partition == partition_of("42", PARTITIONS) else None

    def partitions(self, topic: str) -> int:
        raise NotImplementedError(topic)

    def send(self, topic: str, *, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        self.sent.append((topic, key, value, headers))

    def reads(self, value: bytes | None, by: int | None, key: bytes = KEY, changelog: str = CHANGELOG) -> None:
        headers = (SEAL,) if by is None else (SEAL, *owned(by, changelog))
        self.entries.take(
            Fetched(1, (CONTROL, 0), self.read, [LogRecord(CONTROL, 0, self.read, 0, key, value, headers)])
        )
        self.read += 1

    def written_anew(self) -> list[bytes | None]:
        self.sent.clear()
        self.entries.mend()
        assert all(sent[0] == CONTROL and sent[1] == KEY for sent in self.sent)
        return [value for _, _, value, _ in self.sent]


def test_claims_of_another_changelog_or_a_later_one_are_not_compared_and_memory_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(own=8)
    worker.reads(b"of before it was recreated", by=7, changelog="changelog other id")
    worker.reads(b"of now", by=3)
    assert worker.written_anew() == []
    worker.reads(b"of a replaced worker", by=2)
    assert worker.written_anew() == [b"of now"]
    worker = Worker(own=8)
    worker.reads(b"a", by=9)
    worker.reads(b"b", by=3)
    assert worker.written_anew() == [], "a worker that was replaced leaves it to the owner"
    monkeypatch.setattr(control_entries, "_KEYS", 1)  # of each topic
    worker = Worker(own=7)
    worker.reads(b"a", by=5)
    worker.reads(b"b", by=3)  # late, and then forgotten
    for other in (b"session:1", b"session:2"):
        worker.reads(b"a", by=5, key=other)
    assert worker.written_anew() == []


def test_a_worker_that_may_not_read_the_topic_says_so_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(own=7)
    with caplog.at_level(logging.ERROR):
        worker.on_failure(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    assert (worker.failures, "haltline topics acls" in caplog.text) == ([], True)
    other = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    worker.on_failure(other)
    assert worker.failures == [other]
