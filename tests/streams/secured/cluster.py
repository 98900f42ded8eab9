"""A Kafka with TLS only, client certificates, passwords (SASL), and an authorizer that denies by default."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss them
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from haltline.schemas.topics import Topics
from haltline.streams.local.kafka import LocalKafka, free_port
from haltline.streams.local.kafka_jars import fetch
from tests.streams.commands import haltline
from tests.streams.secured.pki import Authority
from tests.waiting import wait_until

TOPICS: Final = Topics()
USERS: Final = ("admin", "agent", "worker", "audit", "operator", "console", "canary")
MECHANISM: Final = "SCRAM-SHA-512"
_PROPERTIES = """
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port,SASL_SSL://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port,SASL_SSL://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
listener.name.sasl_ssl.ssl.keystore.type=PEM
listener.name.sasl_ssl.ssl.keystore.location={certificate}
listener.name.sasl_ssl.ssl.truststore.type=PEM
listener.name.sasl_ssl.ssl.truststore.location={authority}
listener.name.sasl_ssl.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
"""
"""The listener without TLS is the one that `LocalKafka` itself asks whether it answers."""


class Cluster:
    """A secured Kafka: its address, and the files with each user's settings."""

    def __init__(self, kafka: LocalKafka, port: int, folder: Path, authority: Authority) -> None:
        self.kafka = kafka
        self.bootstrap = f"127.0.0.1:{port}"
        self.folder = folder
        self._authority = authority
        self._certificate = authority.certify("client", password_of("key"))

    def client(self, user: str, **changes: str | None) -> dict[str, str]:
        """librdkafka's settings of a user; `changes` with _ for a dot, None takes one away."""
        settings: dict[str, str | None] = {
            "security.protocol": "SASL_SSL", "sasl.mechanism": MECHANISM, "sasl.username": user,
            "sasl.password": password_of(user), "ssl.ca.location": str(self._authority.file),
            "ssl.certificate.location": str(self._certificate), "ssl.key.location": str(self._certificate),
            "ssl.key.password": password_of("key"),
        }  # fmt: skip
        changed = settings | {name.replace("_", "."): value for name, value in changes.items()}
        return {name: value for name, value in changed.items() if value is not None}

    def file(self, user: str, name: str = "", **changes: str | None) -> Path:
        """The same as a file for HALTLINE_CLIENT_CONFIG."""
        file = self.folder / f"{name or user}.properties"
        lines = (f"{name}={value}\n" for name, value in self.client(user, **changes).items())
        file.write_text("# settings of a client\n\n" + "".join(lines))
        return file

    def environment(self, user: str) -> dict[str, str]:
        """All that a process is told of the cluster."""
        return {"HALTLINE_BOOTSTRAP": self.bootstrap, "HALTLINE_CLIENT_CONFIG": str(self.file(user))}

    def run(self, user: str, *command: str) -> tuple[int, str]:
        """Exit code and output of `haltline ...` as this user."""
        done = haltline(*command, env=self.environment(user))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    def taken(self, user: str, topic: str) -> int:
        """The broker's response to a record of this user: 0, or an error code."""
        result: list[int] = []
        settings = {**self.client(user), "bootstrap.servers": self.bootstrap, "message.timeout.ms": 20_000}
        producer = Producer(settings)
        producer.produce(topic, key=b"session:s1", on_delivery=lambda e, _: result.append(e.code() if e else 0))
        producer.flush(30)
        producer.close()
        (code,) = result
        return code


def password_of(user: str) -> str:
    """The user's password, which no output may contain."""
    return f"secret-of-{user}"


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """One with haltline's topics, made by its administrator over TLS as everything else."""
    port, authority = free_port(), Authority(folder, "authority")
    properties = _PROPERTIES.format(
        port=port,
        certificate=authority.certify("broker"),
        authority=authority.file,
        users=" ".join(f'user_{user}="{password_of(user)}"' for user in USERS),
    )
    with LocalKafka(folder / "kafka", jars=fetch(), properties=properties) as kafka:
        _make_users(kafka.bootstrap)
        cluster = Cluster(kafka, port, folder, authority)
        for command in (
            "create --partitions 4 --replication 1", "check", "acls --operator User:operator --apply",
            "acls --operator User:console --apply", "acls --agent User:canary --operator User:canary --apply",
        ):  # fmt: skip
            _succeed(cluster, ("topics", *command.split()))
        # What is made is in force a moment later; until then nobody may do anything.
        for user, topic in (("agent", TOPICS.feedback), ("worker", TOPICS.control), ("canary", TOPICS.policies)):
            taken = partial(cluster.taken, user, topic)
            wait_until(lambda: taken() == 0, f"{user} may write {topic}", deadline_s=60)  # noqa: B023  # waited for here
        yield cluster


def _succeed(cluster: Cluster, command: Sequence[str]) -> None:
    """Users are known a moment after they were made."""
    result: list[str] = []

    def done() -> bool:
        code, output = cluster.run("admin", *command)
        result[:] = [output]
        return code == 0

    try:
        wait_until(done, f"haltline {' '.join(command)}", deadline_s=60)
    except AssertionError as late:
        raise AssertionError(f"{late}: {result}") from None


def _make_users(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logging.getLogger("tests.kafka"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    expected: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, info, password_of(user).encode()) for user in USERS
    ]
    for made in admin.alter_user_scram_credentials(expected).values():
        made.result(30)
