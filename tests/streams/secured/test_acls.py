"""An agent's credentials cannot release it: on a real Kafka with an authorizer."""

import orjson
import pytest
from confluent_kafka import KafkaError

from haltline.schemas.topics import Topics
from haltline.streams.kafka.acls import May, Role, grants
from haltline.streams.local.kafka import LocalKafka
from tests.streams.commands import haltline
from tests.streams.secured.cluster import TOPICS, Cluster

PRINCIPALS = {role: f"User:{role}" for role in Role}
WANTED = grants(
    PRINCIPALS, TOPICS, changelogs=("changelog", "shadow-changelog"), group="haltline", audit_group="haltline-audit"
)


def may(role: Role, what: May) -> set[str]:
    return {g.name for g in WANTED if g.principal == PRINCIPALS[role] and g.may is what and g.resource == "topic"}


def test_each_role_writes_what_is_its_own_and_nothing_else() -> None:
    assert may(Role.AGENT, May.WRITE) == {TOPICS.actions, TOPICS.feedback}
    assert may(Role.AUDIT, May.WRITE) == set()
    assert [role for role in Role if TOPICS.control in may(role, May.WRITE)] == [Role.WORKER]
    assert may(Role.SHADOW, May.WRITE) == {TOPICS.detections, TOPICS.interventions, "shadow-changelog"}
    assert may(Role.SHADOW, May.READ) == {*TOPICS.session_sources, TOPICS.policies, "shadow-changelog"}
    groups = {g.name for g in WANTED if g.principal == PRINCIPALS[Role.SHADOW] and g.may is May.READ}
    assert {"haltline-shadow"} == {name for name in groups if name.startswith("haltline-")}


def test_the_lines_are_those_of_kafkas_own_tool() -> None:
    done = haltline("topics", "acls", "--agent", "User:bot", "--bootstrap", "kafka-1:9092")
    assert done.exit_code == 0
    add = "kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal 'User:bot'"
    assert f"{add} --operation Write --topic 'haltline.actions'" in done.output.splitlines()
    assert all(line.startswith("kafka-acls.sh ") for line in done.output.splitlines())


@pytest.mark.kafka
def test_an_agent_only_acts_and_answers_and_an_operator_commands_and_does_not_decide(cluster: Cluster) -> None:
    for user, topic in [
        *[("agent", getattr(TOPICS, name)) for name in ("commands", "control", "interventions", "policies", "signals")],
        ("agent", TOPICS.detections),
        ("operator", TOPICS.control),
        ("audit", TOPICS.commands),
    ]:
        assert cluster.taken(user, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED, (user, topic)
    assert cluster.taken("agent", TOPICS.feedback) == 0


def permissions(*there: str) -> tuple[str, str]:
    done = haltline("doctor", *there, "--json")
    checks = {check["what"]: check for check in orjson.loads(done.stdout)}
    return checks["permissions"]["verdict"], checks["permissions"]["found"]


@pytest.mark.kafka
def test_doctor_sees_what_agents_may_do(cluster: Cluster, kafka: LocalKafka, kafka_topics: Topics) -> None:
    here = ("--bootstrap", cluster.kafka.bootstrap, "--agent")
    for there, verdict, actual in (
        ((*here, "User:agent"), "ok", "neither commands nor decisions"),
        ((*here, "User:operator"), "bad", "may write haltline.commands"),
        (("--bootstrap", kafka.bootstrap, "--prefix", kafka_topics.prefix), "note", "no authorizer"),
    ):
        found = permissions(*there)
        assert (found[0], actual in found[1]) == (verdict, True), found
