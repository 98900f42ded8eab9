"""A notifier in a thread or as a process, with its input and output."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml
from confluent_kafka import Producer

from haltline.schemas.dead_letter import DeadLetter
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.topics import Topics
from haltline.schemas.wire import Headers
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.notify.config import NotifierSettings, load_config
from haltline.streams.notify.notifier import Notifier
from haltline.streams.runtime.metrics import Metrics
from tests.streams.notify.receivers import SECRET
from tests.streams.running import in_thread
from tests.waiting import wait_until


class System:
    """The topics on one side, the records on the other."""

    def __init__(self, bootstrap: str, topics: Topics, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.topics = topics
        self.file = folder / "notify.yaml"
        (folder / "secret").write_text(SECRET)
        self._folder = folder

    def configure(self, url: str, **fields: Any) -> None:
        """A document with one webhook, `hook`."""
        (self._folder / "url").write_text(url)
        hook = {"kind": "webhook", "url_file": "url", "secret_file": "secret", **fields.pop("hook", {})}
        channels = {"hook": hook, **fields.pop("channels", {})}
        self.file.write_text(yaml.safe_dump({"channels": channels, **fields}))

    def produce(self, *records: IncidentRecord | bytes, ago_s: float = 0.0) -> None:
        """To the incidents topic, with a time before now."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"})
        for record in records:
            key, value = (b"s", record) if isinstance(record, bytes) else (record.scope_id.encode(), record.to_json())
            at_ms = round((time.time() - ago_s) * 1000)
            producer.produce(self.topics.incidents, key=key, value=value, timestamp=at_ms)
        assert producer.flush(30) == 0

    def recorded(self) -> list[NotificationRecord]:
        """The records of notifications on the topic."""
        with LogReader(self.bootstrap, [self.topics.notifications]) as reader:
            return [NotificationRecord.model_validate_json(message.value() or b"") for message in reader.to_end()]

    def letters(self) -> list[DeadLetter]:
        """The dead letters."""
        with LogReader(self.bootstrap, [self.topics.dead_letter]) as reader:
            return [
                DeadLetter.from_record(message.key(), message.value(), cast("Headers", message.headers() or []))
                for message in reader.to_end()
            ]

    def wait_for(self, number: int) -> list[NotificationRecord]:
        """So many records, each of another change and channel."""
        wait_until(lambda: len(self.recorded()) >= number, f"{number} notifications are recorded", deadline_s=90)
        found = self.recorded()
        assert max(Counter(record.notification_id for record in found).values()) == 1
        return found

    @contextmanager
    def running(self) -> "Iterator[tuple[Notifier, Metrics]]":
        """A notifier in a thread, which ends in order."""
        metrics = Metrics("notify")
        made = NotifierSettings(bootstrap=self.bootstrap, topics=self.topics, fetch_wait_ms=10)
        notifier = Notifier(made, load_config(self.file), metrics)
        with in_thread(notifier.run, notifier.stop):
            yield notifier, metrics


def ids(received: Sequence[Any]) -> list[str]:
    """The `webhook-id` of each request."""
    return [one.headers["webhook-id"] for one in received]
