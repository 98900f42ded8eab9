"""`haltline status`: what is killed now, and how far the workers are."""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from haltline.cli.answers import acknowledged
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    Exit,
    ago,
    console,
    print_json,
    printable,
    say,
)
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.log_reader import Unreachable
from haltline.streams.operator.client import Operator, PartitionLag
from haltline.streams.operator.ids import NotFound, resolve


@with_cluster("group")
def status(
    *,
    session: Annotated[
        str | None, typer.Argument(help="Only this session, by its id or its beginning.", metavar="SESSION")
    ] = None,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show what is killed now, by whom and why, and how far the workers are behind.

    With SESSION: exit 1 when something stops it (itself, not its agent or tools), else 0.

    Example: haltline status

    Example: haltline status session-42 --json
    """
    operator = Operator(at.bootstrap, topics=at.topics, group=at.group, client=at.client_config)
    standing = operator.standing()
    if session is not None:
        standing = [record for record in standing if record.scope is ScopeKind.SESSION]
        with suppress(NotFound):  # what does not stand needs no id that is known
            session = resolve("session", session, (record.id for record in standing))
        standing = [record for record in standing if record.id == session]
        if as_json:
            print_json({"control": standing})
        else:
            _print_standing(standing, none=f"nothing holds for session {session}")
        stopped = [record for record in standing if record.state is not ControlState.PROBATION]
        raise typer.Exit(Exit.NO if stopped else Exit.OK)
    lag = operator.lag()
    beside = Runs.SHADOW.group(at.group)
    shadow: list[PartitionLag] = []
    with suppress(Unreachable):  # who may see this group's lag may not be allowed to see that one's
        shadow = Operator(at.bootstrap, topics=at.topics, group=beside, client=at.client_config).lag()
    if all(partition.committed is None for partition in shadow):
        shadow = []  # there is no such group: one runs all rules
    if as_json:
        document = {"lag": [asdict(partition) for partition in lag], "shadow_lag": [asdict(one) for one in shadow]}
        print_json({"control": standing, "group": at.group, **document})
        return
    _print_standing(standing, none="nothing is killed")
    _print_lag(lag, at.group)
    if shadow:
        waiting = sum(partition.lag_records for partition in shadow)
        say(f"{waiting} records wait for group {beside}, whose rules are in shadow and stop nothing")


def _print_standing(standing: list[ControlRecord], *, none: str) -> None:
    if not standing:
        say(none)
        return
    now_ms = time.time_ns() // 1_000_000
    table = Table("scope", "id", "state", "since", "by", "reason", "acknowledged")
    for record in standing:
        cells = (
            record.scope.value,
            record.id,
            record.state.value,
            f"{ago(record.stands_since, now_ms)} ago",
            record.by,
            record.reason,
            acknowledged(record),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console().print(table)


def _print_lag(lag: list[PartitionLag], group: str) -> None:
    waiting = sum(partition.lag_records for partition in lag)
    if all(partition.committed is None for partition in lag):
        say(f"no worker of group {group} has committed anything yet, {waiting} records wait", "yellow")
        return
    table = Table("topic", "partition", "read up to", "end", "lag in records")
    for partition in lag:
        if partition.end == 0:
            continue  # nothing was ever written there
        read = "-" if partition.committed is None else str(partition.committed)
        table.add_row(partition.topic, str(partition.partition), read, str(partition.end), str(partition.lag_records))
    console().print(table)
    say(f"{waiting} records wait for the workers of group {group}")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(status)
