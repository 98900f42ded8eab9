"""Two groups side by side on the real Kafka: what both write is what one writes, also when each dies in between."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from confluent_kafka import Producer
from typer.testing import CliRunner

from benchmarks.cluster import Group
from haltline.cli.app import app
from haltline.schemas.decisions import Mode
from haltline.schemas.events import ActionEvent
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Operations, Policy, Rule
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import SessionState
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import wait_until_ready
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import SCOPE_KEY
from tests.builders import call
from tests.conftest import PARTITIONS, changelog_of, shadow_changelog_of
from tests.streams.grouped import Log
from tests.waiting import wait_until

NAMES = ("repetition", "goal_drift", "step_review", "destructive_volume")
POLICY = Policy(
    name="tried",
    operations=Operations(kill_ack_s=3600),  # nobody acknowledges, and what the clock says is no function of the log
    rules={name: Rule(mode=Mode.SHADOW) for name in NAMES},
)
SESSIONS = [
    next(f"{n}-{i}" for i in range(100) if partition_of(f"{n}-{i}", PARTITIONS) == n) for n in range(PARTITIONS)
]
"""One of each partition."""


def story() -> list[ActionEvent]:
    """Sessions that delete one thing of their own again and again, and look at one thing over and over."""
    found: list[ActionEvent] = []
    for number in range(16):
        for place, session in enumerate(SESSIONS):
            found += call(60 * number + place, "look_up", "asset_id=a", session=session)
            if number > 8:
                found += call(60 * number + place + 20, "delete_asset", f"asset_id={session}", session=session)
    return [one.model_copy(update={"agent_id": f"of {one.session_id}"}) for one in found]


@pytest.mark.kafka
def test_what_both_groups_write_is_what_one_writes_and_each_goes_on_from_its_own_changelog(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    rules = {name: {"mode": "shadow"} for name in NAMES}
    policy.write_text(yaml.safe_dump({"name": "tried", "operations": {"kill_ack_s": 3600}, "rules": rules}))
    topics, group = kafka_topics, kafka_topics.prefix.removesuffix(".")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    options = ["--prefix", topics.prefix, "--checkpoint-interval", "0.2", "--policy", str(policy)]
    events = story()

    def say(events: list[ActionEvent]) -> None:
        for event in events:
            producer.produce(topics.actions, key=event.session_id, value=event.to_json())
        assert producer.flush(10) == 0

    def settled(name: str) -> bool:
        watched = Group(kafka.bootstrap, name, topics.session_sources)
        try:
            return watched.committed() == watched.end()
        finally:
            watched.close()

    with Children(tmp_path) as children:

        def start(runs: Runs, life: int = 1) -> Child:
            result = [
                "worker",
                "--bootstrap",
                kafka.bootstrap,
                "--metrics-port",
                "0",
                *options,
                "--rules",
                runs,
                "--instance-id",
                runs,
            ]
            child = children.start_module(f"{runs}-{life}", "haltline.cli", result, must_run=False)
            wait_until_ready(children, child)
            return child

        enforcing, shadow = start(Runs.ENFORCED), start(Runs.SHADOW)
        third = len(events) // 3
        say(events[:third])
        os.kill(shadow.pid, signal.SIGKILL)
        say(events[third : 2 * third])
        # Nothing is behind for want of the other group.
        wait_until(lambda: settled(group), "what can stop an agent goes on alone", deadline_s=60)
        shadow = start(Runs.SHADOW, 2)
        wait_until(lambda: settled(f"{group}-shadow"), "what is in shadow caught up", deadline_s=60)
        os.kill(enforcing.pid, signal.SIGKILL)
        say(events[2 * third :])
        enforcing = start(Runs.ENFORCED, 2)
        for name in (group, f"{group}-shadow"):
            wait_until(lambda name=name: settled(name), f"{name} is done", deadline_s=60)  # type: ignore[misc]  # binds it
        here = ["--bootstrap", kafka.bootstrap, "--prefix", topics.prefix]
        result = CliRunner().invoke(app, ["status", *here])
        assert f"0 records wait for group {group}-shadow" in result.output
        checks = {c["what"]: c for c in orjson.loads(CliRunner().invoke(app, ["doctor", *here, "--json"]).stdout)}
        assert checks["shadow workers' progress"]["verdict"] == "ok"
        assert checks["topics"]["verdict"] == "ok"

    expected = Log(POLICY, Runs.ALL).run(events)
    for topic, named in ((topics.detections, "detection_id"), (topics.interventions, "decision_id")):
        actual = {record[named]: record for record in _read(kafka.bootstrap, topic)}
        mine = {record[named]: record for record in expected.of(Topics().prefix + topic.removeprefix(topics.prefix))}
        assert {i: _timeless(one) for i, one in actual.items()} == {i: _timeless(one) for i, one in mine.items()}
        assert {one["mode"] for one in actual.values()} >= {"enforce", "shadow"}
    kept = {name: _states(kafka.bootstrap, name) for name in (changelog_of(topics), shadow_changelog_of(topics))}
    own, beside = kept.values()
    assert own.keys() == beside.keys() >= set(SESSIONS)
    assert not {name for state in own.values() for name in state.detectors} & set(NAMES)
    assert {name for state in beside.values() for name in state.detectors} >= {"repetition", "destructive_volume"}


def _timeless(record: dict[str, Any]) -> str:
    """What a record says, without the worker's clock and without places in the log."""
    text = orjson.dumps({key: value for key, value in record.items() if key not in {"decided_at", "incident"}})
    document = orjson.loads(text)
    for evidence in (*document.get("evidence", ()), *document.get("finding", {}).get("evidence", ())):
        for name in ("topic", "partition", "offset"):
            evidence.pop(name, None)
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()


def _read(bootstrap: str, topic: str) -> Iterator[dict[str, Any]]:
    with LogReader(bootstrap, [topic]) as reader:
        for message in reader.to_end():
            yield orjson.loads(message.value() or b"{}")


def _states(bootstrap: str, changelog: str) -> dict[str, SessionState]:
    found = {}
    with LogReader(bootstrap, [changelog]) as reader:
        for message in reader.to_end():
            key, value = message.key(), message.value()
            if isinstance(key, bytes) and value and not key.startswith(SCOPE_KEY) and value.startswith(b"{"):
                found[key.decode(errors="replace")] = state_codec.decode(value)
    return found
