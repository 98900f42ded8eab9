"""The approval API of Agent Sentinel's SDK: requests in haltline's own inbox, answered by people only.

The client that made a request may poll it, withdraw it, and answer a question about it. An approval is for the one
requested call: its client receives it once, and thereby uses it.
"""

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import delete, func, select

from haltline.console.access.keys import Who
from haltline.console.context import AgentClient, Context, ContextDep, SdkHeaders
from haltline.console.http.routing import StrictRoute
from haltline.console.read_model import tables
from haltline.console.read_model.store import insert_of, values
from haltline.interventions.agent.redaction.payload_encoding import plain, plain_text
from haltline.interventions.control.request_queue import MAX_TICKETS
from haltline.schemas import wire
from haltline.schemas.control import CallRequest, Command, CommandKind
from haltline.schemas.decisions import Approval, ApprovalState, Decision, ScopeKind
from haltline.schemas.events import Amount
from haltline.schemas.findings import Severity
from haltline.schemas.record import Id, JsonObject, Text, rfc3339
from haltline.streams.kafka.log_reader import Unreachable
from haltline.streams.operator.approval_client import LONGEST_S
from haltline.streams.operator.command_factory import NotAllowed, make_command, now_ms

router = APIRouter(prefix="/api/v1/approvals", tags=["agents"], route_class=StrictRoute)

_OPEN = frozenset({ApprovalState.PENDING, ApprovalState.INFO_REQUESTED})
_MAX_ARGS_BYTES = 8192
_USED: dict[str, Any] = {
    "status": ApprovalState.EXPIRED.value,  # the SDK has no other status for what is no longer valid
    "decided_at": None,
    "decided_by_email": None,
    "decision_notes": "it was used: an approval is for one call",
}
_NONE: dict[int | str, dict[str, Any]] = {404: {"description": "There is none of this id that this key asked for."}}


class ApprovalRequest(BaseModel):
    """A call to approve, in the SDK's fields."""

    model_config = ConfigDict(extra="ignore")

    action_name: Annotated[str, Field(min_length=1, max_length=512)]
    action_description: Text | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    task_id: Id | None = None
    mission_id: Id | None = None
    estimated_cost: Amount = 0.0
    risk_level: Annotated[str, Field(max_length=64)] = "medium"
    priority: Severity = Severity.MEDIUM
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 3600
    action_inputs: JsonObject | None = None
    context: JsonObject | None = None


class ApprovalStatusResponse(BaseModel):
    """The status of a request, in the SDK's fields."""

    id: str
    approval_id: str
    status: Annotated[str, Field(description="pending, info_requested, approved, rejected, expired or cancelled")]
    action_name: str
    run_id: str
    priority: str
    expires_at: str
    decided_at: str | None = None
    decided_by_email: str | None = None
    """The names of the operators who approved or rejected it, from their keys."""
    decision_notes: str | None = None
    info_request_message: str | None = None


class ApprovalCheck(BaseModel):
    """The result of a check whether a call needs an approval."""

    requires_approval: bool
    reason: str | None = None
    timeout_seconds: int | None = None


class ApprovalAnswer(BaseModel):
    """An answer to an operator's question."""

    response: Annotated[str, Field(min_length=1, max_length=4096, examples=["the owner asked for it in the chat"])]


@router.post("/check")
def check(
    here: ContextDep,
    _: AgentClient,
    action_name: Annotated[str, Query(min_length=1, max_length=512)],
    cost_usd: Annotated[float, Query(ge=0, le=1e15)] = 0.0,
) -> ApprovalCheck:
    """Checks whether the rules require a person's approval of such a call. It does not request one."""
    patterns = here.settings.rules.approvals
    why = patterns.why(action_name, cost_usd)
    return ApprovalCheck(
        requires_approval=why is not None, reason=why, timeout_seconds=patterns.timeout_s if why else None
    )


@router.post("", status_code=201)
@router.post("/", status_code=201, include_in_schema=False)
def ask(
    here: ContextDep,
    who: AgentClient,
    body: ApprovalRequest,
    response: Response,
    sdk: SdkHeaders,
) -> ApprovalStatusResponse:
    """Adds a request to the inbox. It is refused unless a person approves it in time."""
    agent_id = (body.agent_id or sdk.agent_id or who.name)[:256]
    session_id = (body.run_id or sdk.run_id or f"run-of-{agent_id}")[:256]
    _require_room(here, session_id)
    inputs = None if body.action_inputs is None else plain(body.action_inputs, max_bytes=_MAX_ARGS_BYTES).value
    costs = f"; costs {body.estimated_cost:g} USD" if body.estimated_cost else ""
    why = plain_text(f"{body.action_description or body.action_name} (risk {body.risk_level}{costs})", max_chars=4000)
    request_id = f"apr_{uuid.uuid4().hex}"
    taken_in = here.send(
        make_command(
            CommandKind.REQUEST,
            ScopeKind.SESSION,
            session_id,
            by=who.name,
            reason="its own guard asks for an approval",
            request_id=request_id,
            request=CallRequest(
                action=body.action_name,
                args=inputs if isinstance(inputs, dict) else None,
                agent_id=agent_id,
                priority=body.priority,
                expires_s=body.timeout_seconds,
                why=why,
            ),
        )
    )
    if not taken_in:
        raise Unreachable(f"request {request_id}: expected it in the read model, which is behind; ask again")
    response.headers["Location"] = f"/api/v1/approvals/{request_id}/poll"
    return _wait(here, *_find(here, who, request_id))


@router.get("/{request_id}/poll", responses=_NONE)
def poll(here: ContextDep, who: AgentClient, request_id: str) -> ApprovalStatusResponse:
    """The status of a request. Its client receives the approval once, for that one call: then it is used.

    A used approval, or one that was not polled before its expiry, is `expired`.
    """
    decision, approval = _find(here, who, request_id)
    stands = _wait(here, decision, approval)
    if stands.status != ApprovalState.APPROVED or approval.asked_by != who.name:
        return stands
    if _take(here, request_id):
        try:
            _say(here, who, CommandKind.USE, decision, approval, "its own guard makes the call")
        except Unreachable:  # no client has received it: it can be requested again
            _put_back(here, request_id)
            raise
        return stands
    return stands.model_copy(update=_USED)


@router.post("/{request_id}/cancel", responses=_NONE)
def cancel(here: ContextDep, who: AgentClient, request_id: str) -> ApprovalStatusResponse:
    """Withdraws a request; earlier decisions stay."""
    decision, approval = _find(here, who, request_id)
    if not _is_open(approval):
        return _wait(here, decision, approval)
    _say(here, who, CommandKind.WITHDRAW, decision, approval, "withdrawn by the client that requested it")
    return _wait(here, decision, approval).model_copy(update={"status": ApprovalState.CANCELLED.value})


@router.post("/{request_id}/respond", responses=_NONE)
def respond(here: ContextDep, who: AgentClient, request_id: str, body: ApprovalAnswer) -> ApprovalStatusResponse:
    """Answers an operator's question; the request stays pending. Only a person approves it."""
    decision, approval = _find(here, who, request_id)
    if approval.state is not ApprovalState.INFO_REQUESTED or not _is_open(approval):
        raise NotAllowed(
            f"request {request_id}: expected one about which something was asked, got one {approval.state}"
        )
    answer = plain_text(body.response, max_chars=4000)
    _say(here, who, CommandKind.ANSWER, decision, approval, answer)
    return _wait(here, decision, approval).model_copy(update={"status": ApprovalState.PENDING.value})


def _take(here: Context, request_id: str) -> bool:
    """Mark an approval as received. Returns whether it was not received before, in any process of this console."""
    at_ms = now_ms()
    row = insert_of(here.engine.dialect.name, tables.taken).values(request_id=request_id, time_ms=at_ms)
    with here.engine.begin() as connection:
        connection.execute(delete(tables.taken).where(tables.taken.c.time_ms < at_ms - 2 * LONGEST_S * 1000))
        return bool(connection.execute(row.on_conflict_do_nothing(index_elements=["request_id"])).rowcount)


def _put_back(here: Context, request_id: str) -> None:
    with here.engine.begin() as connection:
        connection.execute(delete(tables.taken).where(tables.taken.c.request_id == request_id))


def _say(here: Context, who: Who, kind: CommandKind, decision: Decision, approval: Approval, reason: str) -> None:
    here.send(
        make_command(
            kind,
            ScopeKind.SESSION,
            decision.session_id,
            by=who.name,
            reason=reason,
            request_id=approval.request_id,
            nonce=approval.nonce,
        )
    )


def _require_room(here: Context, session_id: str) -> None:
    """Raises NotAllowed if a session has too many open requests: more would displace pending ones."""
    table = tables.approvals.c
    held = (table.session_id == session_id, table.expires_ms > now_ms(), table.state.in_(_OPEN))
    (waiting,) = values(here.engine, select(func.count()).select_from(tables.approvals).where(*held))
    if waiting >= MAX_TICKETS - 1:
        raise NotAllowed(f"run {session_id}: expected fewer than {MAX_TICKETS - 1} requests that wait, got one more")


def _find(here: Context, who: Who, request_id: str) -> tuple[Decision, Approval]:
    table = tables.approvals.c
    body = next(iter(values(here.engine, select(table.body).where(table.request_id == request_id))), None)
    decision = None if body is None else wire.decode(Decision, body.encode())
    approval = None if decision is None else decision.approval
    if decision is None or approval is None or not (approval.asked_by == who.name or who.may("look")):
        raise HTTPException(404, f"request {request_id}: expected one that {who.name} asked for, got none of this id")
    return decision, approval


def _wait(here: Context, decision: Decision, approval: Approval) -> ApprovalStatusResponse:
    by = approval.rejected_by if approval.state is ApprovalState.REJECTED else approval.approved_by
    state = approval.state
    if now_ms() >= approval.expires and state not in {ApprovalState.REJECTED, ApprovalState.CANCELLED}:
        state = ApprovalState.EXPIRED
    decided = state in {ApprovalState.APPROVED, ApprovalState.REJECTED}
    stands = ApprovalStatusResponse(
        id=approval.request_id,
        approval_id=approval.request_id,
        status=state.value,
        action_name=approval.action,
        run_id=decision.session_id,
        priority=approval.priority.value,
        expires_at=rfc3339(approval.expires),
        decided_at=rfc3339(decision.time) if decided else None,
        decided_by_email=", ".join(by) if decided else None,
        decision_notes=_notes(here, decision.session_id, approval.request_id) if decided else None,
        info_request_message=approval.question if state is ApprovalState.INFO_REQUESTED else None,
    )
    return stands.model_copy(update=_USED) if state is ApprovalState.USED else stands


def _notes(here: Context, session_id: str, request_id: str) -> str | None:
    """The reason of the last operator."""
    table = tables.records.c
    answers = (CommandKind.APPROVE.value, CommandKind.REJECT.value)
    statement = (
        select(table.body)
        .where(table.topic == "commands", table.session_id == session_id, table.kind.in_(answers))
        .order_by(table.time_ms.desc())
        .limit(MAX_TICKETS * 2)
    )
    commands = (wire.decode(Command, body.encode()) for body in values(here.engine, statement))
    return next((command.reason for command in commands if command.request_id == request_id), None)


def _is_open(approval: Approval) -> bool:
    return approval.state in _OPEN and now_ms() < approval.expires
