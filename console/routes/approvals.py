"""Approvals: calls that wait for an operator, and the answers."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from haltline.console.context import ContextDep, OperatorClient, Viewer
from haltline.console.http.routing import NO_SUCH_ID, Limit, Page, Skip, StrictRoute
from haltline.console.ids import beginning
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import Approval, ApprovalState, Decision
from haltline.schemas.findings import Severity
from haltline.schemas.record import rfc3339
from haltline.streams.history import queries
from haltline.streams.history.kept import Where
from haltline.streams.operator import approval_client
from haltline.streams.operator.command_factory import now_ms
from haltline.streams.operator.ids import resolve

router = APIRouter(prefix="/api/v1/approvals", tags=["approvals"], route_class=StrictRoute)

Word = Literal["approve", "reject", "ask"]


class Request(BaseModel):
    """One approval request, as of its last decision."""

    id: str
    session_id: str
    agent_id: str
    status: str
    """The request's state; `expired` from its expiry on, also before the worker has published that."""
    priority: str
    action_name: str
    targets: list[str]
    arguments: str
    reason: str
    question: str
    quorum: int
    approved_by: list[str]
    rejected_by: list[str]
    asked: int
    incident_id: str | None
    """The incident that it belongs to."""
    created_at: str
    expires_at: str


class RequestList(Page):
    """A page of requests: held sessions, then the most urgent; of one priority those that expire first."""

    approvals: list[Request]


class Reason(BaseModel):
    """The reason, for the audit."""

    reason: Annotated[str, Field(min_length=1, max_length=4096)]


class ApprovalsAnswered(BaseModel):
    """The outcome of an answer, by request."""

    answered: bool
    """Whether the worker has processed all of them in time."""
    approvals: list[Request]
    """The answered requests, in their newest known state."""


def shown_request(body: str, at_ms: int) -> Request:
    """Return a request from the last decision on it."""
    decision = Decision.model_validate_json(body)
    if decision.approval is None:
        raise TypeError(f"decision {decision.decision_id}: expected one with an approval request")
    return _request(decision.approval, decision, at_ms)


def _request(approval: Approval, of: Decision | approval_client.Request, at_ms: int) -> Request:
    late = approval.state.waits and at_ms >= approval.expires
    return Request(
        **approval.model_dump()
        | {
            "id": approval.request_id,
            "session_id": of.session_id,
            "agent_id": of.agent_id,
            "status": ApprovalState.EXPIRED.value if late else approval.state.value,
            "action_name": approval.action,
            "reason": of.reason,
            "incident_id": of.incident_id,
            "created_at": rfc3339(approval.since),
            "expires_at": rfc3339(approval.expires),
        }
    )


@router.get("")
def list_approvals(
    here: ContextDep,
    _: Viewer,
    status: ApprovalState | None = None,
    priority: Severity | None = None,
    agent_id: str | None = None,
    session_id: str | None = None,
    include_expired: Annotated[bool, Query(description="Also those whose time is over.")] = True,
    open_only: Annotated[bool, Query(description="Only those that can be answered now.")] = False,
    skip: Skip = 0,
    limit: Limit = 50,
) -> RequestList:
    """The requests that match every filter."""
    at_ms, is_expired = now_ms(), status is ApprovalState.EXPIRED
    held: list[Where] = [*queries.waiting(at_ms)] if open_only else []
    held += [("priority", "=", priority.rank)] if priority is not None else []
    held += [("agent_id", "=", agent_id)] if agent_id is not None else []
    held += [("session_id", "=", session_id)] if session_id is not None else []
    held += [("state", "=", status.value)] if status is not None and not is_expired else []
    if status is not None or not include_expired:
        held.append(("over_ms", "<=" if is_expired else ">", at_ms))
    rows = here.kept.rows("approvals", *held, order=queries.URGENT_FIRST, skip=skip, limit=limit)
    shown = [shown_request(row["body"], at_ms) for row in rows]
    return RequestList(approvals=shown, total=here.kept.count("approvals", *held), skip=skip, limit=limit)


@router.get("/pending")
def pending(here: ContextDep, who: Viewer, limit: Limit = 50) -> RequestList:
    """The requests that can be answered now."""
    return list_approvals(here, who, open_only=True, limit=limit)


@router.get("/{request_id}", responses=NO_SUCH_ID)
def approval(here: ContextDep, _: Viewer, request_id: str) -> Request:
    """One request in its present state. The id may be shortened."""
    request_id = resolve("request", request_id, beginning(here.kept, "approvals", "request_id", request_id))
    (row,) = here.kept.rows("approvals", ("request_id", "=", request_id))
    return shown_request(row["body"], now_ms())


class Batch(Reason):
    """The same answer to several requests, with one reason."""

    ids: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=500)]
    word: Word


class BatchAnswered(BaseModel):
    """The outcome, by request."""

    answered: list[str]
    """A worker has processed it."""
    late: list[str]
    """No worker has answered in time: the answer stays on the topic until one runs."""
    refused: dict[str, str]
    """Why it was not sent."""


@router.post("/batch")
def answer_all(here: ContextDep, who: OperatorClient, batch: Batch) -> BatchAnswered:
    """Approves or rejects several requests, or asks a question. Each is answered separately, except closed ones."""
    answered, refused = here.inbox.answer_all(CommandKind(batch.word), batch.ids, by=who.name, reason=batch.reason)
    return BatchAnswered(
        answered=[one.before.approval.request_id for one in answered if one.after is not None],
        late=[one.before.approval.request_id for one in answered if one.after is None],
        refused=refused,
    )


@router.post("/{request_id}/{word}", responses=NO_SUCH_ID)
def answer(
    here: ContextDep,
    who: OperatorClient,
    request_id: str,
    word: Word,
    body: Reason,
    identical: Annotated[bool, Query(description="Also every other open request about the same call.")] = False,
) -> ApprovalsAnswered:
    """Approves or rejects a request, or asks a question. A request that expires is never approved."""
    kind = CommandKind(word)
    if identical:
        answers = here.inbox.answer_identical(kind, request_id, by=who.name, reason=body.reason)
    else:
        answers = [here.inbox.answer(kind, request_id, by=who.name, reason=body.reason)]
    last = [one.after or one.before for one in answers]
    return ApprovalsAnswered(
        answered=all(one.after is not None for one in answers),
        approvals=[_request(one.approval, one, now_ms()) for one in last],
    )
