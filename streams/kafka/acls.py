"""Who may do what on a cluster: so that no agent can release itself, whatever it does.

An agent writes what it does and what it answers, and reads what is decided. Only the worker writes what stands
(`control`) and what is decided (`interventions`, beside what rules in shadow would have decided); only operators, and
the worker for a session's descendants, write `commands`. The names of principals are the cluster's; a principal of
several agents is as good as one for each, as sessions are not distinguished by it.
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
    changelog, shadow_changelog = changelogs
    t, sources, shadow = topics, topics.session_sources, Runs.SHADOW.group(group)
    opinions = (t.interventions, t.actions, t.policies, t.opinions)
    by_worker = (t.detections, t.interventions, t.incidents, t.control, t.signals, t.commands, t.dead_letter)
    # By role: the topics that it writes and reads, and the groups that it joins and asks for.
    needed: Mapping[Role, tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]] = {
        Role.AGENT: ((t.actions, t.feedback), (t.interventions, t.control), (), (AGENT_GROUP,)),
        Role.WORKER: ((*by_worker, changelog), (*sources, t.policies, t.control, changelog), (group,), (READER_GROUP,)),
        # Whatever becomes of it, it stops nobody and releases nobody.
        Role.SHADOW: (
            (t.detections, t.interventions, shadow_changelog),
            (*sources, t.policies, shadow_changelog),
            (shadow,),
            (READER_GROUP,),
        ),
        Role.AUDIT: ((), t.all, (audit_group,), (READER_GROUP,)),
        # Its lag is seen by what it commits in the console's group.
        Role.OPERATOR: (
            (t.commands, t.policies),
            t.all,
            (f"{group}-console",),
            (group, shadow, audit_group, READER_GROUP),
        ),
        Role.NOTIFIER: (
            (t.notifications, t.dead_letter),
            (t.incidents, t.notifications),
            (f"{group}-notify",),
            (READER_GROUP,),
        ),
        # It talks to a model: whatever that makes of it, it decides and commands nothing.
        Role.OPINION: ((t.opinions,), opinions, (f"{group}-opinion",), (READER_GROUP,)),
    }
    writes, reads, joins, asks = needed[role]
    yield from ((May.READ, "group", name) for name in joins)
    yield from ((May.DESCRIBE, "group", name) for name in asks)
    yield from ((May.WRITE, "topic", name) for name in writes)
    yield from ((May.READ, "topic", name) for name in reads)
