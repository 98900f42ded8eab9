"""The approvals that wait for a person: read from the decisions, answered by commands."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Approval, ApprovalState, Decision, ScopeKind
from haltline.streams.commands import NotAllowed, make_command
from haltline.streams.operator import NotFound, Operator

LONGEST_S: Final = 86_400
"""No request lives longer: older decisions need not be read."""

_OPEN = frozenset({ApprovalState.PENDING, ApprovalState.INFO_REQUESTED})
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Request:
    """One approval request, as its last decision tells it."""

    approval: Approval
    session_id: str
    agent_id: str
    reason: str
    """Why it was stopped, for the operator."""

    def is_open(self, now_ms: int) -> bool:
        """Whether it can be answered still."""
        return self.approval.state in _OPEN and now_ms < self.approval.expires


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What became of an operator's answer."""

    command: Command
    before: Request
    after: Request | None
    """As the worker told it; None: not in time."""


class Inbox(Operator):
    """What an operator sees of approvals, and says to them."""

    def requests(self) -> list[Request]:
        """Every request of the last day, the most urgent and then the longest waiting first."""
        with self._reader(self._topics.interventions, since_ms=_now_ms() - LONGEST_S * 1000) as reader:
            found = fold(message.value() for message in reader.to_end())
        return sorted(found, key=lambda r: (-r.approval.priority.rank, r.approval.since))

    def pending(self) -> list[Request]:
        """Those that can be answered now."""
        now_ms = _now_ms()
        return [request for request in self.requests() if request.is_open(now_ms)]

    def answer(self, kind: CommandKind, request_id: str, *, by: str, reason: str) -> Answered:
        """Approves or rejects a request, or asks for more; `request_id` may be its beginning.

        Raises NotFound when there is none, NotAllowed when it is no longer open, or the beginning is that of several.
        """
        (answered,) = self._answer(kind, [self._open(request_id)], by=by, reason=reason)
        return answered

    def answer_identical(self, kind: CommandKind, request_id: str, *, by: str, reason: str) -> list[Answered]:
        """The same answer to all open requests, of any session, about the same call as this one. Raises as `answer`."""
        first = self._open(request_id)
        same = [r for r in self.pending() if r.approval.parameters == first.approval.parameters]
        return self._answer(kind, same or [first], by=by, reason=reason)

    def answer_all(
        self, kind: CommandKind, request_ids: Iterable[str], *, by: str, reason: str
    ) -> tuple[list[Answered], dict[str, str]]:
        """The same answer to several requests, by their whole ids; and why, for those that cannot be answered."""
        known, now_ms = {r.approval.request_id: r for r in self.requests()}, _now_ms()
        taken: list[Request] = []
        refused: dict[str, str] = {}
        for request_id in dict.fromkeys(request_ids):
            request = known.get(request_id)
            if request is None:
                refused[request_id] = "wanted one of the last day, came none"
            elif not request.is_open(now_ms):
                state = ApprovalState.EXPIRED if request.approval.state in _OPEN else request.approval.state
                refused[request_id] = f"wanted one that is open, came one that is {state}"
            else:
                taken.append(request)
        return self._answer(kind, taken, by=by, reason=reason) if taken else [], refused

    def _open(self, request_id: str) -> Request:
        known = [r for r in self.requests() if r.approval.request_id.startswith(request_id)]
        if not known:
            raise NotFound(f"request {request_id}: wanted one of the last day, came none; see: haltline approvals")
        if len(known) > 1:
            raise NotAllowed(f"request {request_id}: wanted the beginning of one id, came that of {len(known)}")
        (request,) = known
        if not request.is_open(_now_ms()):
            state = ApprovalState.EXPIRED if request.approval.state in _OPEN else request.approval.state
            raise NotAllowed(
                f"request {request.approval.request_id}: wanted one that is open, came one that is {state}"
            )
        return request

    def _answer(self, kind: CommandKind, requests: list[Request], *, by: str, reason: str) -> list[Answered]:
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
        }
        after: dict[str, Request] = {}
        with self._reader(self._topics.interventions, from_beginning=False) as reader:
            for command in commands.values():
                self._send(command)
            sent_at = time.monotonic()
            while len(after) < len(commands) and time.monotonic() - sent_at < self._within_s:
                message = reader.poll(_POLL_S)
                for told in fold([message.value()] if message is not None else []):
                    command_of = commands.get(told.approval.request_id)
                    if command_of is not None and _shows(told.approval, command_of):
                        after[told.approval.request_id] = told
        return [
            Answered(command=commands[r.approval.request_id], before=r, after=after.get(r.approval.request_id))
            for r in requests
        ]


def fold(values: Iterable[bytes | None]) -> list[Request]:
    """The last word on each request, of encoded decisions in their order."""
    found: dict[str, Request] = {}
    for value in values:
        if value is None or b'"approval"' not in value:
            continue
        try:
            decision = wire.decode(Decision, value)
        except wire.InvalidRecord:
            continue
        if decision.approval is not None:
            found[decision.approval.request_id] = Request(
                approval=decision.approval,
                session_id=decision.session_id,
                agent_id=decision.agent_id,
                reason=decision.reason,
            )
    return list(found.values())


def _shows(approval: Approval, command: Command) -> bool:
    """Whether the request shows that the answer was taken in, or cannot be any more."""
    if approval.state is ApprovalState.EXPIRED:
        return True
    if command.kind is CommandKind.ASK:
        return approval.state is ApprovalState.INFO_REQUESTED
    return command.by in (approval.approved_by if command.kind is CommandKind.APPROVE else approval.rejected_by)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
