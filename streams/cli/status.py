"""`haltline status`: what is killed now, and how far the workers are."""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.cli.answers import acknowledged
from haltline.streams.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_GROUP,
    DEFAULT_PREFIX,
    NO_CLIENT_CONFIG,
    AsJson,
    Bootstrap,
    ClientConfig,
    Exit,
    Group,
    Prefix,
    ago,
    console,
    print_json,
    printable,
    say,
)
from haltline.streams.ids import NotFound, resolve
from haltline.streams.operator import Operator, PartitionLag


def status(
    *,
    session: Annotated[
        str | None, typer.Argument(help="Only this session, by its id or its beginning.", metavar="SESSION")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
    group: Group = DEFAULT_GROUP,
    as_json: AsJson = False,
) -> None:
    """Show what is killed now, by whom and why, and how far the workers are behind.

    With SESSION: exit 1 when something stops it (itself, not its agent or tools), else 0.

    Example: haltline status

    Example: haltline status session-42 --json
    """
    operator = Operator(bootstrap, topics=Topics(prefix), group=group, client=client_config)
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
    if as_json:
        print_json({"control": standing, "lag": [asdict(partition) for partition in lag], "group": group})
        return
    _print_standing(standing, none="nothing is killed")
    _print_lag(lag, group)


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
            continue  # nothing was ever said there
        read = "-" if partition.committed is None else str(partition.committed)
        table.add_row(partition.topic, str(partition.partition), read, str(partition.end), str(partition.lag_records))
    console().print(table)
    say(f"{waiting} records wait for the workers of group {group}")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(status)
