"""An agent's credentials cannot release it: on a real Kafka with an authorizer."""

import logging
from collections.abc import Iterator
from functools import partial

import orjson
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from haltline.interventions.agent import Guard, Refused
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.acls import May, Role, grants
from haltline.streams.cli.app import app
from haltline.streams.cli.topics import changelog_of
from haltline.streams.local_kafka import LocalKafka, fetch
from haltline.streams.operator import Operator
from haltline.streams.topics import create_topics
from tests.conftest import require_kafka
from tests.streams.counting import unused_port
from tests.streams.running import running_worker
from tests.waiting import wait_until

TOPICS = Topics()
USERS = ("agent", "worker", "audit", "operator")
PRINCIPALS = {role: f"User:{role}" for role in Role}
WANTED = grants(PRINCIPALS, TOPICS, changelog="changelog", group="haltline", audit_group="haltline-audit")

PROPERTIES = """
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port,SASL_PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port,SASL_PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


def may(role: Role, what: May) -> set[str]:
    return {g.name for g in WANTED if g.principal == PRINCIPALS[role] and g.may is what and g.resource == "topic"}


def test_an_agent_writes_what_it_does_and_what_it_answers_and_nothing_else() -> None:
    assert may(Role.AGENT, May.WRITE) == {TOPICS.actions, TOPICS.feedback}
    assert may(Role.AUDIT, May.WRITE) == set()
    assert [role for role in Role if TOPICS.control in may(role, May.WRITE)] == [Role.WORKER]


def test_the_lines_are_those_of_kafkas_own_tool() -> None:
    done = CliRunner().invoke(app, ["topics", "acls", "--agent", "User:bot", "--bootstrap", "kafka-1:9092"])
    assert done.exit_code == 0
    line = (
        "kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal 'User:bot' "
        "--operation Write --topic 'haltline.actions'"
    )
    assert line in done.output.splitlines()
    assert all(line.startswith("kafka-acls.sh ") for line in done.output.splitlines())


class Cluster:
    """A Kafka that denies what is not allowed; its administrator is whoever comes without a name."""

    def __init__(self, kafka: LocalKafka, port: int) -> None:
        self.kafka = kafka
        self.bootstrap = f"127.0.0.1:{port}"

    @staticmethod
    def client(user: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"of {user}",
        }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_kafka()
    port = unused_port()
    users = " ".join(f'user_{user}="of {user}"' for user in USERS)
    folder = tmp_path_factory.mktemp("authorized")
    with LocalKafka(folder, jars=fetch(), properties=PROPERTIES.format(port=port, users=users)) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=logging.getLogger("tests.kafka"))
        create_topics(admin, TOPICS, 4, 1, changelog=changelog_of(TOPICS, "haltline"))
        done = CliRunner().invoke(app, ["topics", "acls", "--apply", "--bootstrap", kafka.bootstrap])
        assert done.exit_code == 0, done.output
        made = Cluster(kafka, port)
        # What is made is in force a moment later; until then nobody may do anything.
        for user, topic in (("agent", TOPICS.feedback), ("worker", TOPICS.control), ("operator", TOPICS.policies)):
            wait_until(partial(is_taken, made, user, topic), f"{user} may write {topic}", deadline_s=60)
        yield made


def taken(cluster: Cluster, user: str, topic: str) -> int:
    """What the broker says to a record of this user: 0, or an error's code."""
    said: list[int] = []
    producer = Producer({**cluster.client(user), "bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 20_000})
    producer.produce(
        topic, key=b"session:s1", value=None, on_delivery=lambda error, _: said.append(error.code() if error else 0)
    )
    producer.flush(30)
    producer.close()
    (code,) = said
    return code


def is_taken(cluster: Cluster, user: str, topic: str) -> bool:
    return taken(cluster, user, topic) == 0


@pytest.mark.kafka
@pytest.mark.parametrize(
    "topic", [TOPICS.commands, TOPICS.control, TOPICS.interventions, TOPICS.policies, TOPICS.signals, TOPICS.detections]
)
def test_an_agent_cannot_write(cluster: Cluster, topic: str) -> None:
    assert taken(cluster, "agent", topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.kafka
def test_an_operator_commands_and_does_not_decide(cluster: Cluster) -> None:
    assert taken(cluster, "operator", TOPICS.control) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert taken(cluster, "agent", TOPICS.feedback) == 0
    assert taken(cluster, "audit", TOPICS.commands) == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.kafka
def test_with_these_permissions_and_no_more_a_session_is_killed_and_released(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("worker")
    config = folder / "worker.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in cluster.client("worker").items()))
    operator = Operator(cluster.bootstrap, client=cluster.client("operator"), answer_within_s=60)
    with running_worker(cluster.bootstrap, folder, "--client-config", str(config)):
        guard = Guard(
            session_id="s1",
            agent_id="cleaner",
            bootstrap=cluster.bootstrap,
            mode="blocking",
            budget_s=60.0,
            start_budget_s=60.0,
            kafka=cluster.client("agent"),
        )
        with guard, guard.action("read_asset"):
            pass
        killed = operator.kill(ScopeKind.SESSION, "s1", by="ada", reason="so")
        assert killed.answered
        again = Guard(
            session_id="s1",
            bootstrap=cluster.bootstrap,
            start_budget_s=60.0,
            kafka=cluster.client("agent"),
        )
        with again:
            wait_until(lambda: again.killed, "the guard knows that it is killed", deadline_s=60)
            with pytest.raises(Refused), again.action("read_asset"):
                pass
        assert operator.reset(ScopeKind.SESSION, "s1", by="ada", reason="so").answered
        assert operator.lag()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("principal", "verdict", "came"),
    [
        pytest.param("User:agent", "ok", "neither commands nor decisions", id="agents"),
        pytest.param("User:operator", "bad", "may write haltline.commands", id="agents with an operator's credentials"),
    ],
)
def test_doctor_sees_what_agents_may_do(cluster: Cluster, principal: str, verdict: str, came: str) -> None:
    done = CliRunner().invoke(app, ["doctor", "--bootstrap", cluster.kafka.bootstrap, "--agent", principal, "--json"])
    checks = {check["what"]: check for check in orjson.loads(done.stdout)}
    assert checks["permissions"]["verdict"] == verdict
    assert came in checks["permissions"]["came"]


@pytest.mark.kafka
def test_doctor_says_that_a_cluster_lets_everybody_do_everything(kafka: LocalKafka, kafka_topics: Topics) -> None:
    there = ["--bootstrap", kafka.bootstrap, "--prefix", kafka_topics.prefix]
    done = CliRunner().invoke(app, ["doctor", *there, "--json"])
    checks = {check["what"]: check for check in orjson.loads(done.stdout)}
    assert checks["permissions"]["verdict"] == "note"
    assert "no authorizer" in checks["permissions"]["came"]
    assert checks["policy"]["verdict"] == "ok"
    assert checks["sink's progress"]["verdict"] == "ok"
