"""`haltline approvals`, `approve`, `reject`, `ask`: what waits for a person."""

from typing import Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, By, Reason

RequestId = Annotated[str, typer.Argument(help="The request's id, or its beginning.", metavar="ID")]
Identical = Annotated[
    bool, typer.Option("--identical", help="Also every other open request about the same call, of any session.")
]


@with_cluster()
def approvals(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that were answered in the last day.")] = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show the calls that wait for a person, the most urgent first. Exit 1 when there are some.

    Example: haltline approvals
    """
    from haltline.cli.operator.approval_answers import list_requests

    list_requests(at, everything=everything, as_json=as_json)


@with_cluster("timeout")
def approve(
    *,
    request_id: RequestId,
    by: By,
    reason: Reason,
    identical: Identical = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Allow one call, once: the one that waits, or the next one with exactly the same arguments.

    A critical request takes two different operators; approving it twice changes nothing and says so. Exit 1 when it is
    not open any more, or no worker answers.

    Example: haltline approve 3f2a --by ada --reason 'the table is a copy'
    """
    from haltline.cli.operator.approval_answers import answer
    from haltline.schemas.control import CommandKind

    answer(at, CommandKind.APPROVE, request_id, identical, by=by, reason=reason, as_json=as_json)


@with_cluster("timeout")
def reject(
    *,
    request_id: RequestId,
    by: By,
    reason: Reason,
    identical: Identical = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Refuse a call that waits, and the same call until the request would have expired.

    Example: haltline reject 3f2a --by ada --reason 'not on a Friday'
    """
    from haltline.cli.operator.approval_answers import answer
    from haltline.schemas.control import CommandKind

    answer(at, CommandKind.REJECT, request_id, identical, by=by, reason=reason, as_json=as_json)


@with_cluster("timeout")
def ask(
    *,
    request_id: RequestId,
    question: Annotated[str, typer.Argument(help="The question to the agent.", metavar="QUESTION")],
    by: By,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Ask the agent a question before you approve: its call is refused with the question, and may be repeated.

    Example: haltline ask 3f2a 'Which report needs this table gone?' --by ada
    """
    from haltline.cli.operator.approval_answers import answer
    from haltline.schemas.control import CommandKind

    answer(at, CommandKind.ASK, request_id, identical=False, by=by, reason=question, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for function in (approvals, approve, reject, ask):
        app.command()(function)
