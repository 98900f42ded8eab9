"""A record of the changelog that cannot be read, on a real Kafka: one session begins anew, everybody else goes on."""

from collections.abc import Iterator
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
from haltline.streams.runtime.changelog import EPOCH_HEADER, TOPIC_IDS_HEADER, Epoch
from haltline.streams.sessions import state_codec
from tests.cases import cases
from tests.conftest import PARTITIONS, changelog_of
from tests.streams.counting import Log
from tests.waiting import wait_until

KILLED, OTHER = next(
    (one, other)
    for one in ("killed",)
    for other in (f"other-{n}" for n in range(100))
    if partition_of(one, PARTITIONS) == partition_of(other, PARTITIONS)
)
HOME = partition_of(KILLED, PARTITIONS)


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


@cases(
    "value, headers",
    {
        "a broken body": (b"\x00damage", []),
        "a cut body under an epoch of far ahead and broken logs": (
            b'{"v":1,"session_id":"killed","events":',
            [(EPOCH_HEADER, Epoch(2**40, 0).encode()), (TOPIC_IDS_HEADER, b"\xff")],
        ),
        "a body that is due, under a broken epoch": (b'{"due_ms":1,"v":1', [(EPOCH_HEADER, b"short")]),
    },
)
def test_a_session_whose_record_is_damaged_begins_anew_and_nobody_else_notices(
    site: Site, tmp_path: Path, value: bytes, headers: list[tuple[str, str | bytes | None]]
) -> None:
    operator = Operator(site.bootstrap, topics=site.topics, group=site.group, answer_within_s=30.0)
    with Children(tmp_path / "before") as children:
        site.worker(children)
        site.act(KILLED)
        site.act(OTHER)
        assert operator.kill(ScopeKind.SESSION, KILLED, by="alice", reason="enough").answered
        site.log.wait_until_committed(site.group, [site.topics.commands])
    control = site.log.records(site.topics.control)
    producer = Producer({"bootstrap.servers": site.bootstrap})
    producer.produce(site.changelog, key=KILLED, value=value, partition=HOME, headers=headers)
    producer.flush(10)

    with Children(tmp_path / "after") as children:
        worker = site.worker(children)
        site.act(KILLED)
        site.act(OTHER)
        wait_until(site.letters, "the bytes are kept")
        (letter,) = site.letters()
        assert (letter.reason, letter.topic, letter.partition, letter.key, letter.raw) == (
            BadRecord.UNREADABLE_STATE, site.changelog, HOME, KILLED.encode(), value,
        )  # fmt: skip
        assert f"session {KILLED}, partition {HOME} of {site.changelog}" in worker.log_file.read_text()
        assert "haltline kill" in worker.log_file.read_text()
        assert (site.events(KILLED), site.events(OTHER)) == (1, 2)
        assert [m.value() for m in site.log.records(site.topics.control)] == [m.value() for m in control]
        assert worker.exit_code is None

    with Children(tmp_path / "again") as children:
        site.worker(children)
        site.act(KILLED)
        assert (site.events(KILLED), len(site.letters())) == (2, 1)
        assert operator.reset(ScopeKind.SESSION, KILLED, by="alice", reason="seen to").answered
        assert [m.value() for m in site.log.records(site.topics.control)][-1] is None
