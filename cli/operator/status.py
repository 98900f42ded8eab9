"""`haltline status`: current kills, and the workers' lag."""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, ago, print_json, say
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from haltline.schemas.control import ControlRecord
    from haltline.streams.operator.client import PartitionLag


@with_cluster("group")
def status(
    *,
    session: Annotated[
        str | None, typer.Argument(help="Only this session, by its id or its beginning.", metavar="SESSION")
    ] = None,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show what is killed now, with operator and reason, and the workers' lag.

    With SESSION: exit 1 when something stops it (itself, not its agent or tools), else 0.

    Example: haltline status

    Example: haltline status session-42 --json
    """
    from haltline.schemas.control import ControlState
    from haltline.schemas.decisions import ScopeKind
    from haltline.streams.engine.groups import Runs
    from haltline.streams.kafka.log_reader import Unreachable
    from haltline.streams.operator.client import Operator
    from haltline.streams.operator.ids import NotFound, resolve

    operator = Operator(at.bootstrap, topics=at.topics, group=at.workers, client=at.client_config)
    in_force = operator.in_force()
    if session is not None:
        in_force = [record for record in in_force if record.scope is ScopeKind.SESSION]
        with suppress(NotFound):  # if nothing is in force, an unknown id is no error
            session = resolve("session", session, (record.id for record in in_force))
        in_force = [record for record in in_force if record.id == session]
        if as_json:
            print_json({"control": in_force})
        else:
            _print_in_force(in_force, none=f"nothing is in force for session {session}")
        stopped = [record for record in in_force if record.state is not ControlState.PROBATION]
        raise typer.Exit(Exit.NO if stopped else Exit.OK)
    lag = operator.lag()
    beside = Runs.SHADOW.group(at.workers)
    shadow: list[PartitionLag] = []
    with suppress(Unreachable):  # a client may be permitted to see one group's lag and not the other's
        shadow = Operator(at.bootstrap, topics=at.topics, group=beside, client=at.client_config).lag()
    if all(partition.committed is None for partition in shadow):
        shadow = []  # the group does not exist: one worker group runs all rules
    if as_json:
        document = {"lag": [asdict(partition) for partition in lag], "shadow_lag": [asdict(one) for one in shadow]}
        print_json({"control": in_force, "group": at.workers, **document})
        return
    _print_in_force(in_force, none="nothing is killed")
    _print_lag(lag, at.workers)
    if shadow:
        waiting = sum(partition.lag_records for partition in shadow)
        say(f"{waiting} records wait for group {beside}, whose rules are in shadow and stop nothing")


def _print_in_force(in_force: "list[ControlRecord]", *, none: str) -> None:
    from haltline.cli.answers import acknowledged

    if not in_force:
        say(none)
        return
    now_ms = time.time_ns() // 1_000_000
    rows = (
        (
            record.scope.value,
            record.id,
            record.state.value,
            f"{ago(record.stands_since, now_ms)} ago",
            record.by,
            record.reason,
            acknowledged(record),
        )
        for record in in_force
    )
    print_table(("scope", "id", "state", "since", "by", "reason", "acknowledged"), rows)


def _print_lag(lag: "list[PartitionLag]", group: str) -> None:
    waiting = sum(partition.lag_records for partition in lag)
    if all(partition.committed is None for partition in lag):
        say(f"no worker of group {group} has committed anything yet, {waiting} records wait", "yellow")
        return
    rows = (
        (
            partition.topic,
            str(partition.partition),
            "-" if partition.committed is None else str(partition.committed),
            str(partition.end),
            str(partition.lag_records),
        )
        for partition in lag
        if partition.end > 0  # not an empty partition
    )
    print_table(("topic", "partition", "read up to", "end", "lag in records"), rows)
    say(f"{waiting} records wait for the workers of group {group}")
