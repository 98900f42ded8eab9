"""`haltline tail --vocabulary`: decisions in the words of another system."""

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.test_vocabularies import decision


@pytest.fixture
def decided(embedded: EmbeddedBroker) -> EmbeddedBroker:
    decisions: list[Decision] = [
        decision(Level.KILL, "destructive_repeat", code="session_killed_loop_guard"),
        decision(Level.ALLOW, rule=""),
        decision(Level.PAUSE, vocabulary="acgp"),
        decision(Level.PAUSE, vocabulary="of a later release"),
    ]
    producer = Producer({"bootstrap.servers": embedded.bootstrap})
    for one in decisions:
        producer.produce(Topics().interventions, key=b"s1", value=one.to_json())
    assert producer.flush(10) == 0
    return embedded


def tail(broker: EmbeddedBroker, *arguments: str) -> list[str]:
    command = ("tail", "--topic", "interventions", "--from-beginning", "--count", "4", "--bootstrap", broker.bootstrap)
    done = CliRunner().invoke(app, [*command, *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == Exit.OK, done.output
    return done.stdout.splitlines()


def test_each_decision_is_reported_in_the_vocabulary_asked_for_or_the_one_that_the_policy_chose(
    decided: EmbeddedBroker,
) -> None:
    killed, allowed, *paused = tail(decided, "--vocabulary", "agent_sentinel")
    assert '"type":"loop_detected"' in killed
    assert allowed.endswith("(no agent_sentinel record)")
    assert all('"outcome":"escalated"' in line for line in paused)
    killed, allowed, governed, unknown = tail(decided)
    assert "KILL session_killed_loop_guard: seen too often" in killed
    assert "ALLOW" in allowed
    assert 'acgp {"type":"INTERVENTION","intervention":"escalate"' in governed
    assert "PAUSE scope_creep: seen too often" in unknown


def test_as_json_too(decided: EmbeddedBroker) -> None:
    values = [orjson.loads(line)["value"] for line in tail(decided, "--vocabulary", "tappass", "--json")]
    assert [value["decision"] for value in values] == ["deny", "allow", "deny", "deny"]
    assert values[0]["response_code"] == "session_killed_loop_guard"
