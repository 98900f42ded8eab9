"""Records of the changelog that cannot be read, on a real Kafka: those sessions begin anew, all others go on."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.operator.client import Operator
from haltline.streams.runtime.changelog import EPOCH_HEADER, OWNER_HEADER, TOPIC_IDS_HEADER
from haltline.streams.sessions import state_codec
from tests.conftest import PARTITIONS, changelog_of
from tests.streams.counting import Log
from tests.waiting import wait_until

HOME = 0
DAMAGED_1, DAMAGED_2, DAMAGED_3, OTHER = islice(
    (name for name in map("session-{}".format, count()) if partition_of(name, PARTITIONS) == HOME), 4
)
Headers = list[tuple[str, str | bytes | None]]
DAMAGE: dict[str, tuple[bytes, Headers]] = {
    # A broken body.
    DAMAGED_1: (b"\x00damage", []),
    # A cut body under a broken owner and broken logs.
    DAMAGED_2: (
        b'{"v":1,"session_id":"killed","events":',
        [(OWNER_HEADER, b"short"), (TOPIC_IDS_HEADER, b"\xff")],
    ),
    # A body that is due, under a broken epoch.
    DAMAGED_3: (b'{"due_ms":1,"v":1', [(EPOCH_HEADER, b"short")]),
}
"""By session: what is written over its state."""


class Site:
    """Workers of one group on the real Kafka, one after the other."""

    def __init__(self, bootstrap: str, topics: Topics, folder: Path) -> None:
        self.bootstrap, self.topics = bootstrap, topics
        self.group = topics.prefix.removesuffix(".")
        self.changelog = changelog_of(topics)
        self.log = Log(bootstrap)
        self._folder = folder
        self._sent = 0

    def worker(self, children: Children) -> Child:
        options = ["--prefix", self.topics.prefix, "--group", self.group, "--checkpoint-interval", "0.2"]
        worker = start_worker(children, self.bootstrap, *options, embedded=False)
        wait_until_ready(children, worker)
        return worker

    def act(self, session: str) -> None:
        """One event of a session, whose state is then in the changelog."""
        self._sent += 1
        event = {
            "event_id": f"e{self._sent}", "session_id": session, "agent_id": "cleaner", "time": 1_750_000_000_000,
            "kind": "action.proposed", "call_id": f"c{self._sent}", "action": "look",
        }  # fmt: skip
        produce_confirmed(self.bootstrap, self.topics.actions, key=session.encode(), value=orjson.dumps(event))
        self.log.wait_until_committed(self.group, [self.topics.actions])

    def events(self, session: str) -> int:
        state = next(m.value() for m in reversed(self.log.records(self.changelog)) if m.key() == session.encode())
        return state_codec.decode(state or b"").events

    def letters(self) -> list[DeadLetter]:
        return [
            DeadLetter.from_record(m.key(), m.value(), m.headers() or ())  # type: ignore[arg-type]  # what is read is bytes
            for m in self.log.records(self.topics.dead_letter)
        ]


@pytest.fixture
def site(kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path) -> Iterator[Site]:
    site = Site(kafka.bootstrap, kafka_topics, tmp_path)
    yield site
    site.log.close()


def test_sessions_whose_records_are_damaged_begin_anew_and_nobody_else_notices(site: Site, tmp_path: Path) -> None:
    operator = Operator(site.bootstrap, topics=site.topics, group=site.group, answer_within_s=30.0)
    with Children(tmp_path / "before") as children:
        site.worker(children)
        site.act(OTHER)
        for session in DAMAGE:
            site.act(session)
            assert operator.kill(ScopeKind.SESSION, session, by="alice", reason="enough").answered
        site.log.wait_until_committed(site.group, [site.topics.commands])
    control = site.log.records(site.topics.control)
    producer = Producer({"bootstrap.servers": site.bootstrap})
    for session, (value, headers) in DAMAGE.items():
        producer.produce(site.changelog, key=session, value=value, partition=HOME, headers=headers)
    producer.flush(10)

    with Children(tmp_path / "after") as children:
        worker = site.worker(children)
        for session in (*DAMAGE, OTHER):
            site.act(session)
        wait_until(lambda: len(site.letters()) == len(DAMAGE), "the bytes are kept")
        assert {
            letter.key: (letter.reason, letter.topic, letter.partition, letter.raw) for letter in site.letters()
        } == {
            session.encode(): (BadRecord.UNREADABLE_STATE, site.changelog, HOME, value)
            for session, (value, _) in DAMAGE.items()
        }
        told = worker.log_file.read_text()
        assert all(f"session {session}, partition {HOME} of {site.changelog}" in told for session in DAMAGE)
        assert "haltline kill" in told
        assert [site.events(session) for session in (*DAMAGE, OTHER)] == [1, 1, 1, 2]
        assert [m.value() for m in site.log.records(site.topics.control)] == [m.value() for m in control]
        assert worker.exit_code is None

    with Children(tmp_path / "again") as children:
        site.worker(children)
        site.act(DAMAGED_1)
        assert (site.events(DAMAGED_1), len(site.letters())) == (2, len(DAMAGE))
        assert operator.reset(ScopeKind.SESSION, DAMAGED_1, by="alice", reason="seen to").answered
        assert {m.key(): m.value() for m in site.log.records(site.topics.control)}[
            f"session:{DAMAGED_1}".encode()
        ] is None
