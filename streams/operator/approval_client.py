"""The pending approvals: read from the decisions, answered by commands."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Approval, ApprovalState, Decision, ScopeKind
from haltline.schemas.record import rfc3339
from haltline.streams.history import queries
from haltline.streams.operator.command_factory import NotAllowed, make_command, now_ms
from haltline.streams.operator.ids import resolve
from haltline.streams.operator.incidents import Incidents

LONGEST_S: Final = 86_400
"""The lifetime limit of a request, in seconds: older decisions need not be read."""

_WITH_REQUEST: Final = b'"approval"'
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Request:
    """One approval request, as in its latest decision."""

    approval: Approval
    session_id: str
    agent_id: str
    reason: str
    """The reason of the stop, for the operator."""
    incident_id: str | None = None

    def is_open(self, now_ms: int) -> bool:
        """Return whether it can still be answered."""
        return self.approval.state.waits and now_ms < self.approval.expires


@dataclass(frozen=True, kw_only=True)
class AnsweredRequest:
    """The result of an operator's answer."""

    command: Command | None
    """None if nothing was sent, because the operator has given the same answer before."""
    before: Request
    after: Request | None
    """As the worker published it; None after a timeout."""


class Closed(NotAllowed):
    """A request can no longer be answered."""


class ApprovalClient(Incidents):
    """The operator's client for approvals and incidents."""

    def requests(self) -> list[Request]:
        """Return every request of the last day: held sessions, then the most urgent, then those that expire first."""
        since_ms = now_ms() - LONGEST_S * 1000
        history = self._history(self._topics.interventions, since_ms=since_ms, holding=_WITH_REQUEST)
        rows = history.rows("approvals", order=queries.URGENT_FIRST)
        return [request for row in rows if (request := _request(row["body"].encode())) is not None]

    def pending(self) -> list[Request]:
        """Return the requests that can be answered now."""
        at_ms = now_ms()
        return [request for request in self.requests() if request.is_open(at_ms)]

    def answer(self, kind: CommandKind, request_id: str, *, by: str, reason: str) -> AnsweredRequest:
        """Approve or reject a request, or ask for more information; `request_id` may be a prefix.

        Raises NotFound when there is none, Closed when it is no longer open, Ambiguous when several have the prefix.
        """
        (answered,) = self._answer(kind, [self._open(kind, request_id, by)], by=by, reason=reason)
        return answered

    def answer_identical(self, kind: CommandKind, request_id: str, *, by: str, reason: str) -> list[AnsweredRequest]:
        """Give one answer to all open requests, of any session, for the same call as this one. Raises as `answer`."""
        first = self._open(kind, request_id, by)
        same = [r for r in self.pending() if r.approval.parameters == first.approval.parameters]
        return self._answer(kind, same or [first], by=by, reason=reason)

    def answer_all(
        self, kind: CommandKind, request_ids: Iterable[str], *, by: str, reason: str
    ) -> tuple[list[AnsweredRequest], dict[str, str]]:
        """Give one answer to several requests, by full ids.

        Returns also the reasons for those that cannot be answered.
        """
        known, at_ms = {r.approval.request_id: r for r in self.requests()}, now_ms()
        taken: list[Request] = []
        refused: dict[str, str] = {}
        for request_id in dict.fromkeys(request_ids):
            request = known.get(request_id)
            if request is None:
                refused[request_id] = "not found among those of the last day"
            elif not request.is_open(at_ms):
                refused[request_id] = _closed(kind, request.approval, by)
            else:
                taken.append(request)
        return self._answer(kind, taken, by=by, reason=reason) if taken else [], refused

    def _open(self, kind: CommandKind, request_id: str, by: str) -> Request:
        known = {r.approval.request_id: r for r in self.requests()}
        hint = "requests are kept for a day; see: haltline approvals --all"
        request = known[resolve("request", request_id, known, hint=hint)]
        if not request.is_open(now_ms()):
            raise Closed(f"request {request.approval.request_id}: {_closed(kind, request.approval, by)}")
        return request

    def _answer(self, kind: CommandKind, requests: list[Request], *, by: str, reason: str) -> list[AnsweredRequest]:
        commands = {
            r.approval.request_id: make_command(
                kind,
                ScopeKind.SESSION,
                r.session_id,
                by=by,
                reason=reason,
                request_id=r.approval.request_id,
                nonce=r.approval.nonce,
            )
            for r in requests
            if not _command_of(by.strip(), kind, r.approval)
        }
        after = {r.approval.request_id: r for r in requests if r.approval.request_id not in commands}
        with self._reader(self._topics.interventions, from_beginning=False) as reader:
            for command in commands.values():
                self._send(command)
            sent_at = time.monotonic()
            while len(after) < len(requests) and time.monotonic() - sent_at < self._within_s:
                message = reader.poll(_POLL_S)
                if (record := None if message is None else _request(message.value())) is not None:
                    command_of = commands.get(record.approval.request_id)
                    if command_of is not None and _shows(record.approval, command_of):
                        after[record.approval.request_id] = record
        return [
            AnsweredRequest(
                command=commands.get(r.approval.request_id), before=r, after=after.get(r.approval.request_id)
            )
            for r in requests
        ]


def _request(value: bytes | None) -> Request | None:
    """Return the request in a decision; None: it has none."""
    if value is None or _WITH_REQUEST not in value:
        return None
    with suppress(wire.InvalidRecord):
        decision = wire.decode(Decision, value)
        if decision.approval is not None:
            return Request(
                approval=decision.approval,
                session_id=decision.session_id,
                agent_id=decision.agent_id,
                reason=decision.reason,
                incident_id=decision.incident_id,
            )
    return None


def _shows(approval: Approval, command: Command) -> bool:
    """Return whether the request shows that the answer was applied, or no longer can be."""
    if approval.state is ApprovalState.EXPIRED:
        return True
    if command.kind is CommandKind.ASK:
        return approval.state is ApprovalState.INFO_REQUESTED
    return _command_of(command.by, command.kind, approval)


def _command_of(by: str, kind: CommandKind, approval: Approval) -> bool:
    """Return whether the operator has approved it, or rejected it, before."""
    names = {CommandKind.APPROVE: approval.approved_by, CommandKind.REJECT: approval.rejected_by}
    return by in names.get(kind, ())


def _closed(kind: CommandKind, approval: Approval, by: str) -> str:
    """Return why it can no longer be answered."""
    words = {CommandKind.APPROVE: "already approved by you; ", CommandKind.REJECT: "already rejected by you; "}
    already = words[kind] if _command_of(by.strip(), kind, approval) else ""
    state = ApprovalState.EXPIRED if approval.state.waits else approval.state
    names = approval.rejected_by if state is ApprovalState.REJECTED else approval.approved_by
    if state is ApprovalState.EXPIRED:
        outcome = f"it expired at {rfc3339(approval.expires)}"
    else:
        outcome = f"it is {state}" + (f" ({', '.join(names)})" if names else "")
    return f"{already}{outcome} and cannot be answered any more"
