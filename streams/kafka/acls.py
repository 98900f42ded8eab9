"""The access rights on a cluster, which prevent an agent from releasing itself.

An agent writes its actions and feedback, and reads decisions. Only the worker writes what is in force (`control`) and
what is decided (`interventions`, beside what rules in shadow would have decided). Only operators, and the worker for a
session's descendants, write `commands`. The names of principals are the cluster's. Several agents may share a
principal, because sessions are not distinguished by it.
"""

from collections.abc import Iterator, Mapping, Sequence
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
"""Groups that are configured and never joined: librdkafka looks up their coordinator nevertheless."""


class Role(StrEnum):
    """The role of a client."""

    AGENT = "agent"
    WORKER = "worker"
    SHADOW = "shadow"
    AUDIT = "audit"
    OPERATOR = "operator"
    NOTIFIER = "notifier"


class May(StrEnum):
    """An operation on a resource, as named by kafka-acls."""

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
        """Return the shell command of Kafka's own tool that grants it."""
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal '{self.principal}' "
            f"--operation {self.may} --{self.resource} '{self.name}'"
        )

    def binding(self) -> AclBinding:
        """Return the ACL for the cluster's admin interface."""
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
    """Return exactly the permissions that these principals need, without duplicates.

    `changelogs`: of the workers, and of those that run rules in shadow.
    """
    expected = (
        Grant(principal=principal, may=may, resource=resource, name=name)
        for role, principal in principals.items()
        for may, resource, name in _needed(role, topics, changelogs, group, audit_group)
    )
    return list(dict.fromkeys(expected))


def apply(admin: AdminClient, grants_to_make: list[Grant]) -> None:
    """Create the permissions on the cluster; existing ones stay. Raises RuntimeError for one that it refuses."""
    futures = admin.create_acls([grant.binding() for grant in grants_to_make], request_timeout=_APPLIED_WITHIN_S)
    for binding, made in futures.items():
        try:
            made.result()
        except KafkaException as refused:
            raise RuntimeError(f"ACL {binding}: expected the cluster to make it, got {refused}") from refused


def _needed(
    role: Role, topics: Topics, changelogs: tuple[str, str], group: str, audit_group: str
) -> Iterator[tuple[May, str, str]]:
    changelog, shadow_changelog = changelogs
    t, sources, shadow = topics, topics.session_sources, Runs.SHADOW.group(group)
    by_worker = (t.detections, t.interventions, t.incidents, t.control, t.signals, t.commands, t.dead_letter)
    # By role: topics to write and read, and groups to join and describe.
    needed: Mapping[Role, tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]] = {
        Role.AGENT: ((t.actions, t.feedback), (t.interventions, t.control), (), (AGENT_GROUP,)),
        Role.WORKER: (
            (*by_worker, changelog),
            (*sources, t.policies, t.control, changelog),
            (group,),
            (READER_GROUP,),
        ),
        # A failure of this role stops nobody and releases nobody.
        Role.SHADOW: (
            (t.detections, t.interventions, shadow_changelog),
            (*sources, t.policies, shadow_changelog),
            (shadow,),
            (READER_GROUP,),
        ),
        Role.AUDIT: ((), t.all, (audit_group,), (READER_GROUP,)),
        # Its lag is computed from its commits in the console's group.
        Role.OPERATOR: (
            (t.commands, t.policies),
            t.all,
            (f"{group}-console",),
            (group, shadow, audit_group, READER_GROUP),
        ),
        Role.NOTIFIER: (
            (t.notifications, t.dead_letter),
            (t.incidents, t.notifications, t.control),
            (f"{group}-notify",),
            (READER_GROUP,),
        ),
    }
    writes, reads, joins, asks = needed[role]
    yield from ((May.READ, "group", name) for name in joins)
    yield from ((May.DESCRIBE, "group", name) for name in asks)
    yield from ((May.WRITE, "topic", name) for name in writes)
    yield from ((May.READ, "topic", name) for name in reads)
