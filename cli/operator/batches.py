"""`haltline batches`: what was declared, and how much of it is used."""

import time
from dataclasses import asdict

import typer
from rich.table import Table
from rich.text import Text

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    console,
    print_json,
    printable,
    say,
)
from haltline.schemas.record import rfc3339
from haltline.streams.operator.batch_status import Batches


@with_cluster()
def batches(
    *,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show the bulk work that was declared in the last eight hours: by whom, for what, and how much of it is used.

    Example: haltline batches
    """
    found = Batches(at.bootstrap, topics=at.topics, group=at.workers, client=at.client_config).declared()
    if as_json:
        print_json([asdict(declared) for declared in found])
        return
    if not found:
        say("no batch was declared in the last eight hours")
        return
    now_ms = time.time_ns() // 1_000_000
    table = Table("session", "by", "why", "covers", "used", "until")
    for declared in found:
        batch = declared.batch
        cells = (
            declared.session_id,
            declared.by,
            declared.reason,
            f"{batch.actions} on {', '.join(batch.targets) or 'any target'}",
            f"{declared.used} of {batch.max_deletes}",
            rfc3339(batch.expires) + (" (over)" if batch.expires < now_ms else ""),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console().print(table)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(batches)
