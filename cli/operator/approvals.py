"""`haltline approvals`, `approve`, `reject`, `ask`: what waits for a person."""

import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    By,
    Exit,
    Reason,
    ago,
    console,
    print_json,
    printable,
    say,
    say_error,
)
from haltline.schemas.control import CommandKind
from haltline.schemas.record import rfc3339
from haltline.streams.operator.approval_client import AnsweredRequest, ApprovalClient, Request

RequestId = Annotated[str, typer.Argument(help="The request's id, or its beginning.", metavar="ID")]
Identical = Annotated[
    bool, typer.Option("--identical", help="Also every other open request about the same call, of any session.")
]


_DONE = {CommandKind.APPROVE: "approved", CommandKind.REJECT: "rejected", CommandKind.ASK: "asked"}


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
    inbox = _inbox(at)
    found = inbox.requests() if everything else inbox.pending()
    if as_json:
        print_json([asdict(request) for request in found])
    elif found:
        _print(found)
    else:
        say("nothing waits for a person")
    now_ms = time.time_ns() // 1_000_000
    if any(request.is_open(now_ms) for request in found):
        raise typer.Exit(Exit.NO)


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
    """Let one call pass, once: the one that waits, or the next one with exactly these arguments.

    A critical request takes two different operators; approving it twice changes nothing and says so. Exit 1 when it is
    not open any more, or no worker answers.

    Example: haltline approve 3f2a --by ada --reason 'the table is a copy'
    """
    inbox = _inbox(at)
    _do(inbox, CommandKind.APPROVE, request_id, identical, by=by, reason=reason, as_json=as_json)


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
    inbox = _inbox(at)
    _do(inbox, CommandKind.REJECT, request_id, identical, by=by, reason=reason, as_json=as_json)


@with_cluster("timeout")
def ask(
    *,
    request_id: RequestId,
    question: Annotated[str, typer.Argument(help="What the agent is to say first.", metavar="QUESTION")],
    by: By,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Ask the agent something before you approve: its call is refused with the question, and may be made again.

    Example: haltline ask 3f2a 'Which report needs this table gone?' --by ada
    """
    inbox = _inbox(at)
    _do(inbox, CommandKind.ASK, request_id, identical=False, by=by, reason=question, as_json=as_json)


def _inbox(at: Cluster) -> ApprovalClient:
    return ApprovalClient(
        at.bootstrap, topics=at.topics, group=at.workers, answer_within_s=at.timeout, client=at.client_config
    )


def _do(
    inbox: ApprovalClient, kind: CommandKind, request_id: str, identical: bool, *, by: str, reason: str, as_json: bool
) -> None:
    give = inbox.answer_identical if identical else lambda *a, **k: [inbox.answer(*a, **k)]
    answers = give(kind, request_id, by=by, reason=reason)
    if as_json:
        print_json([asdict(answered) for answered in answers])
    for answered in answers:
        if answered.after is None:
            say_error(
                f"haltline: {kind} of {answered.before.approval.request_id}: no answer from a worker "
                "in time. It counts if it is read before the request expires; see: haltline approvals --all"
            )
        elif not as_json:
            already = f"already {_DONE[kind]} by you; " if answered.command is None else ""
            say(f"{_about(answered.before)}: {already}{_state(answered.after, kind)}")
    if any(not _is_effective(answered) for answered in answers):
        raise typer.Exit(Exit.NO)


def _is_effective(answered: AnsweredRequest) -> bool:
    return answered.after is not None and answered.after.approval.state != "expired"


def _about(request: Request) -> str:
    approval = request.approval
    return f"{approval.request_id} {approval.action} {', '.join(approval.targets) or approval.arguments}"


def _state(request: Request, command: CommandKind | None = None) -> str:
    """How it stands; of one that takes several people, how many have answered what. The newest answer comes first."""
    approval = request.approval
    if approval.state == "pending" and (approval.quorum > 1 or approval.approved_by or approval.rejected_by):
        votes = {
            CommandKind.APPROVE: (approval.approved_by, approval.quorum),
            CommandKind.REJECT: (approval.rejected_by, max(approval.voters, approval.quorum) - approval.quorum + 1),
        }
        first = CommandKind.REJECT if command is CommandKind.REJECT else CommandKind.APPROVE
        states = [
            f"{_DONE[kind]} by {len(names)} of {needed} needed" + (f" ({', '.join(names)})" if names else "")
            for kind, (names, needed) in sorted(votes.items(), key=lambda vote: vote[0] is not first)
            if names or (kind is first and needed > 1)
        ]
        return f"{'; '.join(states)}; still open"
    return {"used": "approved, and under way"}.get(approval.state, approval.state.replace("_", " "))


def _print(found: list[Request]) -> None:
    now_ms = time.time_ns() // 1_000_000
    table = Table("id", "priority", "state", "session", "call", "why", "asked", "expires")
    for request in found:
        approval = request.approval
        is_late = approval.expires <= now_ms and approval.state == "pending"
        cells = (
            approval.request_id,
            approval.priority.value,
            "expired" if is_late else _state(request),
            f"{request.agent_id} {request.session_id}",
            f"{approval.action} {approval.arguments}",
            request.reason,
            f"{ago(approval.since, now_ms)} ago" + (f", {approval.asked} times" if approval.asked > 1 else ""),
            rfc3339(approval.expires),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console().print(table)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for function in (approvals, approve, reject, ask):
        app.command()(function)
