"""Who may do what on a cluster: so that no agent can release itself, whatever it does.

An agent writes what it does and what it answers, and reads what is decided. Only the worker writes what stands
(`control`) and what is decided (`interventions`, beside what rules in shadow would have decided); only operators, and
the worker for a session's descendants, write `commands`. The names of principals are the cluster's; a principal of
several agents is as good as one for each, as sessions are not distinguished by it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from haltline.schemas.topics import Topics
from haltline.streams.engine.groups import Runs

_APPLIED_WITHIN_S = 30.0
AGENT_GROUP = "haltline-agent"
READER_GROUP = "haltline-reader"
"""Groups that are named and never joined: librdkafka looks for their coordinator all the same."""


class Role(StrEnum):
    """Who connects."""

    AGENT = "agent"
    WORKER = "worker"
    SHADOW = "shadow"
    AUDIT = "audit"
    OPERATOR = "operator"
    NOTIFIER = "notifier"
    OPINION = "opinion"


class May(StrEnum):
    """What a role may do with a resource, in the words of kafka-acls."""

    READ = "Read"
    WRITE = "Write"
    DESCRIBE = "Describe"


@dataclass(frozen=True, kw_only=True)
class Grant:
    """One permission."""

    principal: str
    may: May
    resource: str
    """`topic` or `group`."""
    name: str

    def command(self, bootstrap: str) -> str:
        """As a line of shell, for Kafka's own tool."""
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal '{self.principal}' "
            f"--operation {self.may} --{self.resource} '{self.name}'"
        )

    def binding(self) -> AclBinding:
        """For the cluster's admin interface."""
        return AclBinding(
            ResourceType.TOPIC if self.resource == "topic" else ResourceType.GROUP,
            self.name,
            ResourcePatternType.LITERAL,
            self.principal,
            "*",
            AclOperation[self.may.upper()],
            AclPermissionType.ALLOW,
        )


def grants(
    principals: Mapping[Role, str], topics: Topics, *, changelogs: tuple[str, str], group: str, audit_group: str
) -> list[Grant]:
    """Every permission that these principals need, and no more; once, where a principal has several roles.

    `changelogs`: of the workers, and of those that run rules in shadow.
    """
    expected = (
        Grant(principal=principal, may=may, resource=resource, name=name)
        for role, principal in principals.items()
        for may, resource, name in _needed(role, topics, changelogs, group, audit_group)
    )
    return list(dict.fromkeys(expected))


def apply(admin: AdminClient, grants_to_make: list[Grant]) -> None:
    """Makes them on the cluster; those that are there stay. Raises RuntimeError for one that it refuses."""
    futures = admin.create_acls([grant.binding() for grant in grants_to_make], request_timeout=_APPLIED_WITHIN_S)
    for binding, made in futures.items():
        try:
            made.result()
        except KafkaException as refused:
            raise RuntimeError(f"ACL {binding}: expected the cluster to make it, got {refused}") from refused


def _needed(
    role: Role, topics: Topics, changelogs: tuple[str, str], group: str, audit_group: str
) -> Iterator[tuple[May, str, str]]:
    changelog, shadow = changelogs
    match role:
        case Role.AGENT:
            writes, reads = [topics.actions, topics.feedback], [topics.interventions, topics.control]
            yield May.DESCRIBE, "group", AGENT_GROUP
        case Role.WORKER:
            writes = [topics.detections, topics.interventions, topics.incidents, topics.control, topics.signals]
            writes += [topics.commands, topics.dead_letter, changelog]
            reads = [*topics.session_sources, topics.policies, changelog]
            yield May.READ, "group", group
            yield May.DESCRIBE, "group", READER_GROUP
        case Role.SHADOW:  # whatever becomes of it, it stops nobody and releases nobody
            writes, reads = [topics.detections, topics.interventions, shadow], [*topics.session_sources]
            reads += [topics.policies, shadow]
            yield May.READ, "group", Runs.SHADOW.group(group)
            yield May.DESCRIBE, "group", READER_GROUP
        case Role.AUDIT:
            writes, reads = [], list(topics.all)
            yield May.READ, "group", audit_group
            yield May.DESCRIBE, "group", READER_GROUP
        case Role.OPERATOR:
            writes, reads = [topics.commands, topics.policies], list(topics.all)
            yield May.READ, "group", f"{group}-console"  # its lag is seen by what it commits there
            yield May.DESCRIBE, "group", group
            yield May.DESCRIBE, "group", Runs.SHADOW.group(group)
            yield May.DESCRIBE, "group", audit_group
            yield May.DESCRIBE, "group", READER_GROUP
        case Role.NOTIFIER:
            writes, reads = [topics.notifications, topics.dead_letter], [topics.incidents, topics.notifications]
            yield May.READ, "group", f"{group}-notify"
            yield May.DESCRIBE, "group", READER_GROUP
        case Role.OPINION:  # it talks to a model: whatever that makes of it, it decides and commands nothing
            writes, reads = [topics.opinions], [topics.interventions, topics.actions, topics.policies, topics.opinions]
            yield May.READ, "group", f"{group}-opinion"
            yield May.DESCRIBE, "group", READER_GROUP
    for name in writes:
        yield May.WRITE, "topic", name
    for name in reads:
        yield May.READ, "topic", name
