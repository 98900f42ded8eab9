"""A second opinion on the real Kafka, from the finding in doubt to the decision; then its stops are judged by hand."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from haltline.cli.common import Exit
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.opinions import Opinion, OpinionOutcome
from haltline.schemas.topics import Topics
from haltline.streams.audit.archive import Archive
from haltline.streams.audit.query import QueryFailed
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_audit, start_worker, wait_until_ready
from haltline.streams.replay.label_precision import FALSE_ALARM
from tests.builders import T0_MS
from tests.conftest import PARTITIONS
from tests.streams.commands import haltline
from tests.streams.opinion.cases import SESSION, policy, reads
from tests.streams.opinion.judges import KEY, RUNAWAY, serving
from tests.waiting import wait_until

LONG = "long"
"""A session that goes on until its rule pauses it by itself."""


def values(kafka: LocalKafka, topic: str) -> Iterator[bytes]:
    with LogReader(kafka.bootstrap, [topic]) as reader:
        for message in reader.to_end():
            yield message.value() or b""


def from_the_beginning(kafka: LocalKafka, group: str, topic: str) -> None:
    """A group that is new begins at the end: what is decided before it has found that would be passed over."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, number, 0) for number in range(PARTITIONS)], asynchronous=False)
    consumer.close()


@pytest.mark.kafka
def test_a_finding_in_doubt_is_asked_about_decided_on_and_judged_by_an_operator(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    topics, group = kafka_topics, kafka_topics.prefix.removesuffix(".")
    file, table = tmp_path / "policy.json", tmp_path / "audit"
    file.write_bytes(policy(input_usd=2, output_usd=8).to_json() + b"\n")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    later_ms = time.time_ns() // 1_000_000 - T0_MS

    def say(events: Iterator[ActionEvent]) -> None:
        for event in events:
            now = event.model_copy(
                update={"event_id": f"{event.session_id}/{event.event_id}", "time": event.time + later_ms}
            )
            producer.produce(topics.actions, key=event.session_id, value=now.to_json())
        assert producer.flush(30) == 0

    def read(session: str, *numbers: int) -> None:
        say(itertools.chain.from_iterable(reads(number, session) for number in numbers))

    def opinions() -> list[Opinion]:
        return [Opinion.model_validate_json(value) for value in values(kafka, topics.opinions)]

    def decisions(session: str) -> list[Decision]:
        found = [Decision.model_validate_json(value) for value in values(kafka, topics.interventions)]
        return [decision for decision in found if decision.session_id == session]

    def audited() -> bool:
        try:
            kept = Archive(table).decisions(f"\"session_id\" = '{LONG}'")
        except QueryFailed:  # not made yet
            return False
        return any(one.code == "identical_calls" and one.level >= Level.PAUSE for one in kept)

    from_the_beginning(kafka, f"{group}-opinion", topics.interventions)
    here = ["--bootstrap", kafka.bootstrap, "--prefix", topics.prefix, "--policy", str(file)]
    with serving() as server, Children(tmp_path) as children:
        worker = start_worker(children, kafka.bootstrap, *here[2:], "--checkpoint-interval", "0.2", embedded=False)
        model = ["--url", server.url, "--model", "judge-1", "--metrics-port", "0"]
        key = {"HALTLINE_OPINION_API_KEY": KEY}
        children.start_module("opinion", "haltline.cli", ["opinion", *here, *model], env=key)
        start_audit(children, kafka.bootstrap, ["--prefix", topics.prefix, "--table", str(table), "--flush", "0.5"])
        wait_until_ready(children, worker)
        read(SESSION, 1, 2, 3)
        wait_until(opinions, "the model's answer is on the topic", deadline_s=90)
        read(SESSION, 4)
        wait_until(lambda: [d for d in decisions(SESSION) if d.code == "second_opinion"], "it is decided on")
        read(LONG, *range(1, 15))
        wait_until(audited, "a stop by the rule itself is in the audit table", deadline_s=90)
        arguments = ["calibrate", *here, "--table", table, "--budget", "1/9", "--judge", "--by", "ada"]
        judged = haltline(*arguments, given="n\n" * 5)
    assert judged.exit_code == Exit.OK, judged.output
    assert "false_alarm: is recorded" in judged.output
    labels = [Command.model_validate_json(value) for value in values(kafka, topics.commands)]
    assert (LONG, FALSE_ALARM, CommandKind.LABEL) in {(one.id, one.label, one.kind) for one in labels}
    (opinion,) = [one for one in opinions() if one.session_id == SESSION]
    (asked,) = [decision for decision in decisions(SESSION) if decision.opinion is not None]
    (paused,) = [decision for decision in decisions(SESSION) if decision.code == "second_opinion"]
    assert (opinion.outcome, opinion.decision_id) == (OpinionOutcome.RUNAWAY, asked.decision_id)
    assert opinion.since == f"{SESSION}/p2", "the second step that the model was shown"
    assert (opinion.cost_usd, opinion.input_tokens, opinion.output_tokens) == (0.0028, 1000, 100)
    assert (paused.level, paused.event_id) == (Level.PAUSE, f"{SESSION}/p4")
    assert str(RUNAWAY["tell"]) in paused.message
    assert "notes.txt" in server.text()
    assert KEY not in server.text()
