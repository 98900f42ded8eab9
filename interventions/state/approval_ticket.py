"""Approval requests as a session remembers them. Plain JSON values: part of the session's state."""

from dataclasses import dataclass, field
from typing import Final

from haltline.schemas.decisions import Approval, ApprovalState
from haltline.schemas.findings import Severity

_SAME: Final = (
    "request_id", "nonce", "parameters", "action", "targets", "arguments", "quorum", "voters", "approved_by",
    "rejected_by", "question", "asked",
)  # fmt: skip
"""Fields that an approval has under the same names."""


@dataclass
class Waiter:
    """A proposal of which the agent's side waits for the answer."""

    event_id: str
    call_id: str | None


@dataclass
class Ticket:
    """One request: to let one call with these parameters pass, once."""

    request_id: str
    nonce: str
    parameters: str
    priority: str
    action: str
    targets: list[str]
    arguments: str
    reason: str
    """Why it was stopped."""
    quorum: int
    voters: int
    since_ms: int
    """Event time of the call."""
    expires_ms: int
    """On the same clock."""
    state: str = ApprovalState.PENDING.value
    approved_by: list[str] = field(default_factory=list)
    rejected_by: list[str] = field(default_factory=list)
    question: str = ""
    asked: int = 1
    due_ms: int = 0
    """When it expires on the worker's clock; 0: not looked at yet."""
    waiting: list[Waiter] = field(default_factory=list)
    asked_by: str = ""
    """Whose own guard holds the call back, and asks what became of the request; empty: haltline paused the call."""
    answer: str = ""
    cause: str = ""
    """Of the incident that it is part of."""
    behind: str = ""
    """The request of the same cause that was open already, and in whose place this one comes when that is approved;
    empty: it is published itself."""
    also: list[str] = field(default_factory=list)
    """The parameters of those behind it."""
    closed: str = ""
    """Why it was closed without an answer."""
    rule: str = ""
    """The rule that asks, where it asks once in a session; empty: the request is about its call only."""

    @property
    def is_open(self) -> bool:
        """Whether it can be answered."""
        return self.state in {ApprovalState.PENDING, ApprovalState.INFO_REQUESTED}

    def as_approval(self) -> Approval:
        """As it is told."""
        return Approval(
            **{name: getattr(self, name) for name in _SAME},
            state=ApprovalState(self.state),
            priority=Severity(self.priority),
            answer=self.answer or None,
            asked_by=self.asked_by or None,
            since=self.since_ms,
            expires=self.expires_ms,
            also=self.also or None,
            closed=self.closed or None,
        )
