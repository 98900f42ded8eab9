"""`haltline topics`: create them on a cluster or for a new prefix, check them, print or apply the permissions."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from haltline.cli.audit_table import AuditGroup
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, UsageErrors, console, fail, group_of, option_of, print_json
from haltline.cli.tables import print_table
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from haltline.streams.kafka.topics import TopicReport

topics = typer.Typer(
    help="Create haltline's topics on a cluster, check them, or print the permissions on them.", no_args_is_help=True
)
_log = logging.getLogger(__name__)

PARTITIONS: Final = 24
_OF_A_WORKER: Final = 3
"""Partitions for each worker, so that their shares are about equal."""

Partitions = Annotated[int, typer.Option(help="Number of partitions of each topic.", min=1)]
Replication = Annotated[int, typer.Option(help="Number of replicas of each partition.", min=1)]


@topics.command()
@with_cluster("group")
def create(
    *,
    at: Cluster,
    partitions: Partitions = PARTITIONS,
    replication: Replication = 3,
    as_json: AsJson = False,
) -> None:
    """Create every topic that is missing. Topics that exist stay as they are; exit 1 when one differs.

    Example: haltline topics create --bootstrap kafka-1:9092 --partitions 24 --replication 3
    """
    from haltline.streams.kafka.topics import create_topics

    changelogs = changelogs_of(at.topics, at.workers)
    reports = _requested(
        at, lambda admin: create_topics(admin, at.topics, partitions, replication, changelogs=changelogs)
    )
    _print(reports, as_json=as_json)
    if not as_json:
        typer.echo(workers_fed(max(report.partitions for report in reports)))
    _require_ok(reports)


@topics.command()
@with_cluster("group")
def check(
    *,
    at: Cluster,
    partitions: Annotated[
        int | None, typer.Option(help="Expected partitions of each topic. Default: as many as `actions` has.", min=1)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the topics of a cluster with what haltline needs; exit 1 when one is missing or differs.

    Example: haltline topics check --bootstrap kafka-1:9092
    """
    from haltline.streams.kafka.topics import check_topics

    changelogs = changelogs_of(at.topics, at.workers)
    reports = _requested(at, lambda admin: check_topics(admin, at.topics, changelogs=changelogs, partitions=partitions))
    _print(reports, as_json=as_json)
    _require_ok(reports)


@topics.command()
@with_cluster("group")
def new(
    *,
    at: Cluster,
    source: Annotated[str, typer.Option("--from", help="Prefix of the present topics.", metavar="PREFIX")],
    source_group: Annotated[
        str, typer.Option("--from-group", help="Group of their workers. Default: of their prefix.", metavar="NAME")
    ] = "",
    partitions: Partitions = PARTITIONS,
    replication: Replication = 3,
    sealing_key: Annotated[
        Path | None, option_of("workers.sealing_key", more="Seals the entries of control again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create the topics of a new prefix, and copy `control` and `policies` to them: kills stay in force.

    For more partitions, which a topic with sessions cannot get. Stop the workers of both prefixes before. After a
    failure, run it again. Exit 1 when the new topics have other records.

    Example: haltline topics new --from haltline. --prefix fleet. --partitions 96 --bootstrap kafka-1:9092
    """
    from haltline.streams.engine.groups import Runs
    from haltline.streams.kafka.topics import create_topics
    from haltline.streams.kafka.topics_in_use import topics_in_use
    from haltline.streams.operator.changelog_topics import require_no_members
    from haltline.streams.operator.new_prefix import NewPrefix

    if source == at.prefix:
        fail(f"--prefix: expected another prefix than that of --from, got {source}", Exit.USAGE)
    present = topics_in_use(at.bootstrap, source, client=at.client_config)
    target, changelogs = at.topics, changelogs_of(at.topics, at.workers)
    with UsageErrors(OSError, ValueError):
        copying = NewPrefix(
            at.bootstrap, present, target, changelogs[0], client=at.client_config, sealing_key=sealing_key
        )
    reports = _requested(at, lambda admin: create_topics(admin, target, partitions, replication, changelogs=changelogs))
    if differences := [str(difference) for report in reports for difference in report.differences]:
        fail("; ".join(differences), Exit.NO)
    names = (source_group or group_of(source), at.workers)
    groups = [runs.group(name) for name in names for runs in (Runs.ENFORCED, Runs.SHADOW)]
    require_no_members(at.bootstrap, groups, at.client_config)
    entries, policies = copying.copy()
    if as_json:
        print_json({"prefix": target.prefix, "partitions": partitions, "entries": entries, "policies": policies})
        return
    typer.echo(f"{target.prefix}*: {entries} entries of control and {policies} policies copied from {source}*")
    typer.echo(workers_fed(partitions))


@topics.command()
@with_cluster("group")
def acls(
    *,
    agent: Annotated[str, typer.Option(help="Principal of the agents.", metavar="PRINCIPAL")] = "User:agent",
    worker: Annotated[str, typer.Option(help="Principal of the workers.", metavar="PRINCIPAL")] = "User:worker",
    audit: Annotated[str, typer.Option(help="Principal of the audit sink.", metavar="PRINCIPAL")] = "User:audit",
    operator: Annotated[str, typer.Option(help="Principal of the operators.", metavar="PRINCIPAL")] = "User:operator",
    notifier: Annotated[str, typer.Option(help="Principal of the notifier.", metavar="PRINCIPAL")] = "User:notifier",
    shadow: Annotated[
        str, typer.Option(help="Principal of the workers that run rules in shadow.", metavar="PRINCIPAL")
    ] = "User:shadow",
    audit_group: AuditGroup = "",
    carry_out: Annotated[
        bool, typer.Option("--apply", help="Create the permissions on the cluster, as its administrator.")
    ] = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Print the permissions that haltline's processes need, as lines of kafka-acls.sh. No agent can release itself.

    Agents cannot write commands, control or interventions. The cluster must have an authorizer that denies what is
    not allowed.

    Example: haltline topics acls --agent User:agents --operator User:ops --bootstrap kafka-1:9092
    """
    from confluent_kafka.admin import AdminClient

    from haltline.streams.kafka.acls import Role, apply, grants
    from haltline.streams.kafka.log_reader import open_consumer

    principals = {Role.AGENT: agent, Role.WORKER: worker, Role.AUDIT: audit, Role.OPERATOR: operator}
    principals |= {Role.NOTIFIER: notifier, Role.SHADOW: shadow}
    used, group = (at.topics if carry_out else Topics(at.prefix)), at.workers
    expected = grants(principals, used, changelogs=changelogs_of(used, group), group=group, audit_group=audit_group)
    if carry_out:
        open_consumer(at.bootstrap, client=at.client_config).close()  # fails at once if no broker answers
        try:
            apply(AdminClient({**at.client_config, "bootstrap.servers": at.bootstrap}, logger=_log), expected)
        except RuntimeError as error:
            fail(error, Exit.NO)
    if as_json:
        print_json([asdict(grant) for grant in expected])
    else:
        for grant in expected:
            typer.echo(grant.command(at.bootstrap))


def changelogs_of(topics: Topics, group: str) -> tuple[str, str]:
    """The changelog topics of the group's workers, and of those that run rules in shadow beside them."""
    from haltline.streams.engine.groups import Runs
    from haltline.streams.runtime.worker_settings import WorkerSettings

    of = [Runs.ENFORCED.group(group), Runs.SHADOW.group(group)]
    own, shadow = (WorkerSettings(bootstrap="", sources=topics.session_sources, group=name).changelog for name in of)
    return own, shadow


def workers_fed(partitions: int) -> str:
    """Say how many workers the partitions feed."""
    return (
        f"{partitions} partitions feed {max(1, partitions // _OF_A_WORKER)} workers evenly, {partitions} at most. "
        "A fleet that outgrows them begins a new prefix (haltline topics new)"
    )


def _requested(at: Cluster, ask: "Callable[[AdminClient], list[TopicReport]]") -> "list[TopicReport]":
    from confluent_kafka.admin import AdminClient

    from haltline.streams.kafka.log_reader import open_consumer
    from haltline.streams.kafka.topics import NoAdminApiError

    open_consumer(at.bootstrap, client=at.client_config).close()  # fails at once if no broker answers
    try:
        return ask(AdminClient({**at.client_config, "bootstrap.servers": at.bootstrap}, logger=_log))
    except NoAdminApiError as error:
        fail(error, Exit.USAGE)
    except RuntimeError as error:
        fail(error, Exit.NO)


def _print(reports: "list[TopicReport]", *, as_json: bool) -> None:
    if as_json:
        print_json([{**asdict(report), "ok": report.ok} for report in reports])
        return
    print_table(
        ("topic", "partitions", "state", "what it holds"),
        ((report.topic, str(report.partitions), _state(report), report.what) for report in reports),
    )
    for report in reports:
        for difference in report.differences:
            console().print(str(difference), style="yellow", markup=False)


def _require_ok(reports: "list[TopicReport]") -> None:
    if not all(report.ok for report in reports):
        raise typer.Exit(Exit.NO)


def _state(report: "TopicReport") -> str:
    if report.created:
        return "created"
    return "ok" if report.ok else "differs" if report.partitions else "missing"
