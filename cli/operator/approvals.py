"""`haltline approvals`, `haltline batches`: pending approval requests, and declared batches."""

from typing import Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson


@with_cluster()
def approvals(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also requests answered in the last day.")] = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show the calls that wait for an approval, the most urgent first. Exit 1 when there are some.

    Example: haltline approvals
    """
    from haltline.cli.operator.approval_answers import list_requests

    list_requests(at, everything=everything, as_json=as_json)


@with_cluster()
def batches(
    *,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show the batches declared in the last eight hours: who declared each, for what, and how much of it is used.

    Example: haltline batches
    """
    from haltline.cli.operator.approval_answers import list_batches

    list_batches(at, as_json=as_json)
