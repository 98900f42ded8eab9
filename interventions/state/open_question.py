"""A second opinion requested on a finding of a session. Plain JSON values: part of its state."""

from dataclasses import dataclass


@dataclass
class OpenQuestion:
    """The last request of a rule; without a verdict it is open until it expires."""

    decision_id: str
    event_id: str
    time_ms: int
    """Event time of the finding."""
    expires_ms: int
    """Event time."""
    action: int
    """Index of the session's action at which it was requested, or the verdict was given."""
    on_turn: bool = False
    """The finding was on a turn of the model."""
    verdict: str | None = None
    why: str = ""
    tell: str = ""
    carried_out: bool = False
    """The effect of the verdict, or of its absence, was applied."""
