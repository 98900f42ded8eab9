"""The output of `haltline approvals`, `batches`, `approve`, `reject` and `ask`."""

import time
from dataclasses import asdict

import typer

from haltline.cli.answers import operator_of, say_left_out
from haltline.cli.cluster import Cluster
from haltline.cli.common import Exit, ago, print_json, say, say_error
from haltline.cli.tables import print_table
from haltline.schemas.control import CommandKind
from haltline.schemas.record import rfc3339
from haltline.streams.operator.approval_client import AnsweredRequest, Request
from haltline.streams.operator.batch_status import Batches, BatchStatus

_DONE = {CommandKind.APPROVE: "approved", CommandKind.REJECT: "rejected", CommandKind.ASK: "asked"}


def list_requests(at: Cluster, *, everything: bool, as_json: bool) -> None:
    """Print the pending approval requests; exit 1 if there are any."""
    inbox = operator_of(at)
    found = inbox.requests() if everything else inbox.pending()
    say_left_out(inbox)
    if as_json:
        print_json([asdict(request) for request in found])
    elif found:
        _print(found)
    else:
        say("no calls wait for an approval")
    now_ms = time.time_ns() // 1_000_000
    if any(request.is_open(now_ms) for request in found):
        raise typer.Exit(Exit.NO)


def list_batches(at: Cluster, *, as_json: bool) -> None:
    """Print the batches that may be in force."""
    found = Batches(at.bootstrap, topics=at.topics, group=at.workers, client=at.client_config).declared()
    if as_json:
        print_json([_batch(declared) for declared in found])
        return
    if not found:
        say("no batch was declared in the last eight hours")
        return
    now_ms = time.time_ns() // 1_000_000
    rows = (
        (
            declared.command.id,
            declared.command.by,
            declared.command.reason,
            f"{declared.batch.actions} on {', '.join(declared.batch.targets) or 'any target'}",
            f"{declared.used} of {declared.batch.max_deletes}",
            rfc3339(declared.batch.expires) + (" (expired)" if declared.batch.expires < now_ms else ""),
        )
        for declared in found
    )
    print_table(("session", "by", "why", "covers", "used", "until"), rows)


def _batch(declared: BatchStatus) -> dict[str, object]:
    command = declared.command
    who = {"command_id": command.command_id, "session_id": command.id, "by": command.by, "reason": command.reason}
    return {**who, "time": command.time, "batch": declared.batch, "used": declared.used}


def answer(
    kind: CommandKind, *, request_id: str, identical: bool = False, by: str, reason: str, at: Cluster, as_json: bool
) -> None:
    """Approve, reject or ask, and print the result; exit 1 if the request's state does not match afterwards."""
    inbox = operator_of(at)
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
    """The request's state; if it takes several people, the number of each answer. The newest answer comes first."""
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
    rows = []
    for request in found:
        approval = request.approval
        is_late = approval.expires <= now_ms and approval.state == "pending"
        rows.append(
            (
                approval.request_id,
                approval.priority.value,
                "expired" if is_late else _state(request),
                f"{request.agent_id} {request.session_id}",
                f"{approval.action} {approval.arguments}",
                request.reason,
                f"{ago(approval.since, now_ms)} ago" + (f", {approval.asked} times" if approval.asked > 1 else ""),
                rfc3339(approval.expires),
            )
        )
    print_table(("id", "priority", "state", "session", "call", "why", "asked", "expires"), rows)
