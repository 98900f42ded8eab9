"""`haltline topics`: create them on a cluster, check them, print or apply the permissions."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.audit_table import AuditGroup
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Client, Exit, UsageErrors, console, fail, option_of, print_json
from haltline.cli.tables import print_table
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from haltline.streams.kafka.topics import TopicReport
    from haltline.streams.operator.grow import Group

topics = typer.Typer(
    help="Create haltline's topics on a cluster, check them, or print the permissions on them.", no_args_is_help=True
)
_log = logging.getLogger(__name__)


@topics.command()
@with_cluster("group")
def create(
    *,
    at: Cluster,
    partitions: Annotated[int, typer.Option(help="Number of partitions of each topic.", min=1)] = 12,
    replication: Annotated[int, typer.Option(help="Number of replicas of each partition.", min=1)] = 3,
    as_json: AsJson = False,
) -> None:
    """Create every topic that is missing. Topics that exist stay as they are; exit 1 when one differs.

    Example: haltline topics create --bootstrap kafka-1:9092 --partitions 12 --replication 3
    """
    from haltline.streams.kafka.topics import create_topics

    changelogs = changelogs_of(at.topics, at.workers)
    _report(
        at.bootstrap,
        at.client_config,
        lambda admin: create_topics(admin, at.topics, partitions, replication, changelogs=changelogs),
        as_json=as_json,
    )


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
    _report(
        at.bootstrap,
        at.client_config,
        lambda admin: check_topics(admin, at.topics, changelogs=changelogs, partitions=partitions),
        as_json=as_json,
    )
    if not at.topics.older or as_json:
        return
    from haltline.streams.operator.grow import older_sets

    for one in older_sets(at.bootstrap, at.topics, client=at.client_config):
        last = (
            "none" if one.last_ms is None else f"{datetime.fromtimestamp(one.last_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
        )
        typer.echo(f"{one.prefix}*, an older set: {one.waiting} records wait for the bridge; last record: {last}")


@topics.command()
@with_cluster("group")
def grow(
    *,
    at: Cluster,
    to: Annotated[int, typer.Option(help="New number of partitions of each topic.", min=2)],
    sealing_key: Annotated[
        Path | None, option_of("workers.sealing_key", more="Seals the entries of control again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create topics with more partitions, and copy the states of sessions to them. Stop all workers before.

    Agents go on meanwhile. What is started afterwards uses the new topics; a bridge in the workers serves guards on the
    old ones. After a failure, run it again.

    Example: haltline topics grow --to 48 --bootstrap kafka-1:9092
    """
    from haltline.streams.operator.grow import Growing, partitions_in_use

    count = partitions_in_use(at.bootstrap, at.topics, at.client_config)
    done = {"prefix": at.topics.prefix, "partitions": count, "states": 0, "entries": 0}
    if to < count or (to == count and not at.topics.older):
        fail(f"--to: expected more than the {count} partitions of {at.topics.actions}, got {to}", Exit.USAGE)
    if to > count:
        groups, step = groups_of(at), partial(typer.echo, err=True)
        with UsageErrors(OSError, ValueError):
            growing = Growing(
                at.bootstrap, at.topics, groups, to, client=at.client_config, sealing_key=sealing_key, step=step
            )
        grown = growing.run()
        done = {"prefix": grown.topics.prefix} | {name: getattr(grown, name) for name in list(done)[1:]}
    if as_json:
        print_json(done)
    else:
        typer.echo(f"in use: {done['prefix']}*, {done['partitions']} partitions; {done['states']} states copied")


def groups_of(at: Cluster) -> "list[Group]":
    """The groups of workers, of now and with the next topics."""
    from haltline.streams.engine.groups import Runs
    from haltline.streams.operator.grow import Group

    names = at.workers, at.topics.next.group(at.workers, at.topics.prefix)
    now, following = (changelogs_of(at.topics, name) for name in names)
    groups = [runs.group(at.workers) for runs in (Runs.ENFORCED, Runs.SHADOW)]
    return [Group(*one) for one in zip(groups, now, following, strict=True)]


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
    used, group = (at.topics, at.workers) if carry_out else (Topics(at.prefix), at.group)
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


def _report(
    bootstrap: str, client: Client, ask: "Callable[[AdminClient], list[TopicReport]]", *, as_json: bool
) -> None:
    from confluent_kafka.admin import AdminClient

    from haltline.streams.kafka.log_reader import open_consumer
    from haltline.streams.kafka.topics import NoAdminApiError

    open_consumer(bootstrap, client=client).close()  # fails at once if no broker answers
    try:
        reports = ask(AdminClient({**client, "bootstrap.servers": bootstrap}, logger=_log))
    except NoAdminApiError as error:
        fail(error, Exit.USAGE)
    except RuntimeError as error:
        fail(error, Exit.NO)
    if as_json:
        print_json([{**asdict(report), "ok": report.ok} for report in reports])
    else:
        print_table(
            ("topic", "partitions", "state", "what it holds"),
            ((report.topic, str(report.partitions), _state(report), report.what) for report in reports),
        )
        for report in reports:
            for difference in report.differences:
                console().print(str(difference), style="yellow", markup=False)
    if not all(report.ok for report in reports):
        raise typer.Exit(Exit.NO)


def _state(report: "TopicReport") -> str:
    if report.created:
        return "created"
    return "ok" if report.ok else "differs" if report.partitions else "missing"
