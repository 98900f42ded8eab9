"""Approval requests in the state of a session. Plain JSON values."""

from dataclasses import dataclass, field
from typing import Final

from haltline.schemas.decisions import Approval, ApprovalState
from haltline.schemas.findings import Severity

_SAME: Final = (
    "request_id", "nonce", "parameters", "action", "targets", "arguments", "quorum", "voters", "approved_by",
    "rejected_by", "question", "asked",
)  # fmt: skip
"""Fields with the same names in an approval."""


@dataclass
class Waiter:
    """A proposal whose answer the agent's side awaits."""

    event_id: str
    call_id: str | None


@dataclass
class ApprovalTicket:
    """A request to let one call with these parameters pass, once."""

    request_id: str
    nonce: str
    parameters: str
    priority: str
    action: str
    targets: list[str]
    arguments: str
    reason: str
    """Why the call was stopped."""
    quorum: int
    voters: int
    since_ms: int
    """Event time of the call."""
    expires_ms: int
    """In event time."""
    state: str = ApprovalState.PENDING.value
    approved_by: list[str] = field(default_factory=list)
    rejected_by: list[str] = field(default_factory=list)
    question: str = ""
    asked: int = 1
    due_ms: int = 0
    """When it expires on the worker's clock; 0: no tick has checked it yet."""
    waiting: list[Waiter] = field(default_factory=list)
    cause: str = ""
    """The cause of its incident."""
    behind: str = ""
    """The request of the same cause that was open before; this one replaces it after its approval. Empty: it is
    published itself.
    """
    also: list[str] = field(default_factory=list)
    """The parameters of the requests behind it."""
    closed: str = ""
    """The reason for closing it without an answer."""
    rule: str = ""
    """The rule, if it asks once in a session; empty: the request is about its call only."""

    @property
    def is_open(self) -> bool:
        """Whether it can be answered."""
        return self.state in {ApprovalState.PENDING, ApprovalState.INFO_REQUESTED}

    def as_approval(self) -> Approval:
        """Return the published form."""
        return Approval(
            **{name: getattr(self, name) for name in _SAME},
            state=ApprovalState(self.state),
            priority=Severity(self.priority),
            since=self.since_ms,
            expires=self.expires_ms,
            also=self.also or None,
            closed=self.closed or None,
        )
