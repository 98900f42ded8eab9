"""A changelog whose eras went down, as an older release left it, on a real Kafka: detected, repaired, and continued."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import Result

from haltline.cli.common import Exit
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.runtime.changelog import CLAIM_KEY, EPOCH_HEADER, TOPIC_IDS_HEADER, Claim, Epoch
from haltline.streams.runtime.topic_ids import Logs, TopicIds
from haltline.streams.sessions import state_codec
from tests.conftest import PARTITIONS, changelog_of
from tests.streams.commands import haltline
from tests.streams.counting import Log
from tests.waiting import wait_until

LOST = "lost"
HOME = partition_of(LOST, PARTITIONS)
WENT_ON = next(name for name in (f"other-{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME)


class Site:
    """Two sessions of one partition, and what a release before claims made of them."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        self.bootstrap, self.topics = bootstrap, topics
        self.group = topics.prefix.removesuffix(".")
        self.changelog = changelog_of(topics)
        self.log = Log(bootstrap)
        self._core = Core()
        self.whole: dict[str, SessionState] = {}
        """By session: the core's state after all its events."""
        ids = TopicIds({"bootstrap.servers": bootstrap}).of([*topics.session_sources, self.changelog])
        self._logs = Logs.of(ids, self.changelog).mark

    def act(self, session: str) -> None:
        """One event of a session."""
        number = self.events(self.whole.get(session)) + 1
        event = ActionEvent(
            event_id=f"{session}-{number}", kind=Kind.PROPOSED, session_id=session, agent_id="reader",
            time=1_750_000_000_000 + number, call_id=f"c{number}", action=f"read_{number}",
        )  # fmt: skip
        at = produce_confirmed(self.bootstrap, self.topics.actions, key=session.encode(), value=event.to_json())
        position = Position(self.topics.actions, HOME, at.offset)
        self.whole[session] = self._core.on_event(self.whole.get(session), event, position).state

    def write_as_older_release(self, era: int, session: str) -> None:
        """The state of now, under this era."""
        headers = [(EPOCH_HEADER, Epoch(era, era).encode()), (TOPIC_IDS_HEADER, self._logs)]
        self.write(session.encode(), state_codec.encode(self.whole[session]), headers)

    def write(self, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(self.changelog, key=key, value=value, partition=HOME, headers=list(headers))
        assert producer.flush(10) == 0

    def commit_all(self) -> None:
        """Commit like an owner that has processed everything."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        end = self.log.ends(self.topics.actions)[HOME]
        consumer.commit(offsets=[TopicPartition(self.topics.actions, HOME, end)], asynchronous=False)
        consumer.close()

    def state(self, session: str) -> SessionState:
        """The session's newest state in the changelog."""
        values = [message.value() for message in self.log.records(self.changelog) if message.key() == session.encode()]
        return state_codec.decode(values[-1] or b"")

    @staticmethod
    def events(state: SessionState | None) -> int:
        return 0 if state is None else state.events

    def run(self, *arguments: str) -> Result:
        return haltline("changelog", *arguments, "--bootstrap", self.bootstrap, "--prefix", self.topics.prefix)

    def json(self, *arguments: str, exit_code: Exit = Exit.OK) -> Any:
        done = self.run(*arguments, "--json")
        assert done.exit_code == exit_code, done.output
        return orjson.loads(done.stdout)

    def home(self, *, exit_code: Exit) -> Any:
        """The report of `check` on the partition."""
        found = self.json("check", exit_code=exit_code)["partitions"]
        return next(one for one in found if (one["topic"], one["partition"]) == (self.changelog, HOME))

    def doctor(self) -> str:
        """The findings of `haltline doctor` in the changelogs."""
        done = haltline("doctor", "--bootstrap", self.bootstrap, "--prefix", self.topics.prefix, "--json")
        checks = orjson.loads(done.stdout)
        return next(str(check["found"]) for check in checks if check["what"] == "changelogs")

    def worker(self, children: Children) -> Child:
        options = ["--prefix", self.topics.prefix, "--checkpoint-interval", "0.2"]
        worker = start_worker(children, self.bootstrap, *options, embedded=False)
        wait_until_ready(children, worker)
        return worker

    def wait_until_processed(self) -> None:
        self.log.wait_until_committed(self.group, [self.topics.actions])

    def wait_until_stopped(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})

        def gone() -> bool:
            (answer,) = admin.describe_consumer_groups([self.group], request_timeout=30).values()
            return not answer.result().members

        wait_until(gone, "the group has no members")


@pytest.fixture
def site(kafka: LocalKafka, kafka_topics: Topics) -> Iterator[Site]:
    site = Site(kafka.bootstrap, kafka_topics)
    yield site
    site.log.close()


def test_states_that_readers_drop_are_brought_back_and_workers_go_on_from_them(site: Site, tmp_path: Path) -> None:
    for era in (282, 144):
        for session in (LOST, WENT_ON):
            for _ in range(3):
                site.act(session)
            site.write_as_older_release(era, session)
    site.commit_all()
    (dropped,) = site.home(exit_code=Exit.NO)["dropped"]
    assert {name: dropped[name] for name in ("first", "last", "above_era", "era", "records", "keys", "late")} == {
        "first": 2, "last": 3, "above_era": 282, "era": 144, "records": 2, "keys": 2, "late": False,
    }  # fmt: skip
    with Children(tmp_path / "damaged") as children:
        site.worker(children)
        site.act(WENT_ON)
        site.wait_until_processed()
        assert (site.state(LOST).events, site.state(WENT_ON).events) == (3, 4), "six, and seven, were processed"
        for command in ("repair", "release"):
            refused = site.run(command, *(["--yes"] if command == "repair" else []))
            assert refused.exit_code == Exit.NO
            assert f"group {site.group}: expected no members, got" in refused.stderr
    site.wait_until_stopped()
    before = site.log.ends(site.changelog)
    listed = site.json("repair", exit_code=Exit.NO)
    assert {one["id"]: one["outcome"] for one in listed["states"]} == {
        LOST: "can be brought back", WENT_ON: "went on without",
    }  # fmt: skip
    assert site.log.ends(site.changelog) == before, "nothing is written without --yes"
    assert site.json("repair", "--yes")["written"] == 1
    assert site.home(exit_code=Exit.NO)["states"] == {"went on without": 1}
    with Children(tmp_path / "repaired") as children:
        site.worker(children)
        site.act(LOST)
        site.wait_until_processed()
        lost, expected = site.state(LOST), site.whole[LOST]
        assert (lost.events, lost.offsets, lost.seen) == (7, expected.offsets, expected.seen)
        assert site.state(WENT_ON).events == 4


def test_a_release_marker_lets_the_records_of_an_older_release_count(site: Site) -> None:
    claim = Claim(b"c" * 16)
    site.write(claim.key, None, claim.headers)
    site.act(LOST)
    site.write_as_older_release(5, LOST)
    assert site.home(exit_code=Exit.NO)["older_release_behind_a_claim"] == {"first": 1, "last": 1, "records": 1}
    assert "wrote behind a claim" in site.doctor()
    markers = site.json("release")
    assert len(markers) == 2 * PARTITIONS
    assert {"topic": site.changelog, "partition": HOME, "offset": 2} in markers
    (written,) = [message for message in site.log.records(site.changelog) if message.offset() == 2]
    assert (written.key(), written.value()) == (CLAIM_KEY, None)
    assert site.home(exit_code=Exit.OK)["older_release_behind_a_claim"] is None
    assert "are well" in site.doctor()
