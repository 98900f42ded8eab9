"""A new prefix with more partitions, on a real Kafka: what is killed stays killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient

from haltline.cli.common import Exit
from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.keys import make_keys
from haltline.schemas.seals import HEADER as SEAL
from haltline.schemas.seals import Seals
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.kafka.log_record import record_of
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.operator.new_prefix import COPIED
from tests.interventions.agent.attempts import attempt, guard_of
from tests.streams.commands import haltline
from tests.waiting import wait_until

MORE = 7
OPERATOR = ("--by", "ada", "--reason", "a test")


@pytest.fixture
def following(kafka: LocalKafka, kafka_topics: Topics) -> Iterator[Topics]:
    """The topics of the new prefix, which are made by the command."""
    topics = Topics(f"new-{kafka_topics.prefix}")
    yield topics
    group = topics.prefix.removesuffix(".")
    changelogs = (f"{group}{shadow}-sessions-changelog" for shadow in ("", "-shadow"))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # it has to live until its answers
    for deleted in admin.delete_topics([*topics.all, *changelogs]).values():
        deleted.exception()


def test_what_is_killed_stays_killed_under_a_new_prefix_until_it_is_reset_there(
    kafka: LocalKafka, kafka_topics: Topics, following: Topics, tmp_path: Path
) -> None:
    bootstrap, private = kafka.bootstrap, tmp_path / "seal.pem"
    public = make_keys(private)

    def command(topics: Topics, *words: object) -> Any:
        return haltline(*words, "--bootstrap", bootstrap, "--prefix", topics.prefix)

    def new(*more: object) -> Any:
        options = ("--from", kafka_topics.prefix, "--partitions", MORE, "--replication", 1, "--json")
        return command(following, "topics", "new", *options, *more)

    def guarded(topics: Topics, session: str) -> Any:
        return guard_of(bootstrap, session, mode="blocking", topic_prefix=topics.prefix, verify_key=str(public))

    @contextmanager
    def worker(topics: Topics) -> Iterator[None]:
        with Children(tmp_path / topics.prefix) as children:
            options = ["--prefix", topics.prefix, "--session-timeout", "6", "--sealing-key", str(private)]
            wait_until_ready(children, start_worker(children, bootstrap, *options, embedded=False))
            yield

    def in_force(topics: Topics) -> dict[str, ControlRecord]:
        with LogReader(bootstrap, [topics.control]) as reader:
            last = {message.key() or b"": message.value() for message in reader.to_end()}
        return {key.decode(): wire.decode(ControlRecord, value) for key, value in last.items() if value is not None}

    with worker(kafka_topics):
        for session in ("dead", "released"):
            assert command(kafka_topics, "kill", session, "--unknown", *OPERATOR).exit_code == Exit.OK
        assert command(kafka_topics, "kill", "rogue", "--scope", "agent", "--unknown", *OPERATOR).exit_code == Exit.OK
        assert "expected no members" in new("--sealing-key", private).stderr, "a kill could come behind the copy"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    group = kafka_topics.prefix.removesuffix(".")

    def is_gone() -> bool:
        (answer,) = admin.describe_consumer_groups([group], request_timeout=10).values()
        return not answer.result().members

    wait_until(is_gone, "the workers have left their group")
    assert "expected --sealing-key" in new().stderr
    copied = {"prefix": following.prefix, "partitions": MORE, "entries": 3, "policies": 0}
    for _ in range(2):  # it can be repeated
        done = new("--sealing-key", private)
        assert (done.exit_code, done.stdout and orjson.loads(done.stdout)) == (Exit.OK, copied), done.stderr
    before = in_force(kafka_topics)
    assert in_force(following) == before
    seals = Seals.of_files([public])
    with LogReader(bootstrap, [following.control]) as reader:
        for record in map(record_of, reader.to_end()):
            seals.check(following.control, record.key, record.value, record.headers)
            assert {name for name, _ in record.headers} == {COPIED, SEAL}

    with guarded(following, "dead") as guard:
        assert attempt(guard, "get_asset") == before["session:dead"].code, "without any worker"
    with worker(following):
        with guarded(following, "new") as guard:
            assert attempt(guard, "get_asset") == "executed"
        reset = command(following, "reset", "released", "--probation", 2, *OPERATOR)
        assert reset.exit_code == Exit.OK, reset.output
        assert in_force(following)["session:released"].actions_left == 2, "its state was killed: probation begins"
        wait_until(lambda: in_force(following)["session:dead"].stopped_at, "its guard's answer is read")
        assert in_force(following)["session:dead"].state is ControlState.KILLED
    refused = new("--sealing-key", private)
    assert (refused.exit_code, "expected no records, got" in refused.stderr) == (Exit.NO, True)


def test_topics_that_have_other_records_are_refused_and_stay_as_they_are(
    kafka: LocalKafka, kafka_topics: Topics, following: Topics
) -> None:
    words = (
        "topics",
        "new",
        "--from",
        kafka_topics.prefix,
        "--prefix",
        following.prefix,
        "--bootstrap",
        kafka.bootstrap,
    )
    done = haltline(*words, "--partitions", 4, "--replication", 1)
    assert done.exit_code == Exit.OK, done.output
    assert "4 partitions feed 1 workers evenly" in done.stdout
    produce_confirmed(kafka.bootstrap, following.policies, key=b"default", value=b"{}")
    refused = haltline(*words, "--partitions", 4, "--replication", 1)
    assert (refused.exit_code, f"expected copies of {kafka_topics.policies} only" in refused.stderr) == (Exit.NO, True)
    other = haltline(*words, "--partitions", 5, "--replication", 1)
    assert (other.exit_code, "partitions: expected 5" in other.stderr) == (Exit.NO, True)
    same = haltline(*words[:3], following.prefix, *words[4:])
    assert same.exit_code == Exit.USAGE
