"""`haltline batches`: what was declared, and how much of it is used."""

import time
from dataclasses import asdict

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, print_json, say
from haltline.cli.tables import print_table


@with_cluster()
def batches(
    *,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show the bulk work that was declared in the last eight hours: by whom, for what, and how much of it is used.

    Example: haltline batches
    """
    from haltline.schemas.record import rfc3339
    from haltline.streams.operator.batch_status import Batches

    found = Batches(at.bootstrap, topics=at.topics, group=at.workers, client=at.client_config).declared()
    if as_json:
        print_json([asdict(declared) for declared in found])
        return
    if not found:
        say("no batch was declared in the last eight hours")
        return
    now_ms = time.time_ns() // 1_000_000
    rows = (
        (
            declared.session_id,
            declared.by,
            declared.reason,
            f"{declared.batch.actions} on {', '.join(declared.batch.targets) or 'any target'}",
            f"{declared.used} of {declared.batch.max_deletes}",
            rfc3339(declared.batch.expires) + (" (expired)" if declared.batch.expires < now_ms else ""),
        )
        for declared in found
    )
    print_table(("session", "by", "why", "covers", "used", "until"), rows)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(batches)
