"""Sessions of one agent on different partitions, seen together by two workers on the real Kafka."""

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready
from tests.builders import at
from tests.conftest import PARTITIONS
from tests.waiting import wait_until

SESSIONS = [
    next(f"{n}-{i}" for i in range(100) if partition_of(f"{n}-{i}", PARTITIONS) == n) for n in range(PARTITIONS)
]


def delete(number: int, session: str, seconds: float, **fields: object) -> ActionEvent:
    result = {
        "event_id": f"e{number}",
        "kind": Kind.PROPOSED,
        "session_id": session,
        "agent_id": "cleaner",
        "time": at(seconds),
        "call_id": f"c{number}",
        "action": "delete_asset",
        "targets": ["asset_id=fact_sales"],
    }
    return ActionEvent.model_validate(result | fields)


@pytest.mark.kafka
def test_who_goes_on_in_other_sessions_is_killed_also_when_a_worker_dies_in_between(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    options = ["--prefix", kafka_topics.prefix, "--checkpoint-interval", "0.2", "--session-timeout", "6"]

    def say(event: ActionEvent) -> None:
        producer.produce(kafka_topics.actions, key=event.session_id, value=event.to_json())
        assert producer.flush(10) == 0

    def stands() -> dict[str, ControlRecord]:
        found = {}
        with LogReader(kafka.bootstrap, [kafka_topics.control]) as reader:
            for message in reader.to_end():
                record = ControlRecord.model_validate_json(message.value() or b"")
                found[record.key] = record
        return found

    with Children(tmp_path) as children:
        workers = [start_worker(children, kafka.bootstrap, *options, embedded=False, name=f"w{n}") for n in range(2)]
        for worker in workers:
            wait_until_ready(children, worker)
        say(delete(0, SESSIONS[0], 0))
        say(delete(1, SESSIONS[0], 10))
        say(delete(2, SESSIONS[1], 20))
        wait_until(lambda: f"session:{SESSIONS[1]}" in stands(), "the session that went on is killed", deadline_s=60)
        os.kill(workers[0].pid, signal.SIGKILL)
        say(delete(3, SESSIONS[2], 30))
        say(delete(4, SESSIONS[3], 40))
        wait_until(lambda: "agent:cleaner" in stands(), "the agent is killed", deadline_s=90)
        say(delete(5, SESSIONS[0], 100, parent_session_id=SESSIONS[1], root_session_id=SESSIONS[1]))
        wait_until(lambda: f"session:{SESSIONS[0]}" in stands(), "a later session is killed too", deadline_s=60)
    standing = stands()
    assert standing["agent:cleaner"].state is ControlState.KILLED
    assert standing["agent:cleaner"].code == "agent_killed_agent_destruction"
    assert standing[f"session:{SESSIONS[1]}"].code == "session_killed_agent_destruction"
