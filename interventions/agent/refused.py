"""The only exception that the agent's side raises into an agent's code."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from haltline.schemas.decisions import Decision

NO_VERDICT = "no_verdict"
"""The code of a call refused because no verdict was available, and it could do harm."""


class Refused(Exception):
    """The call was not made, and must not be repeated unchanged.

    `str()` of it is its reason, for the model.
    """

    def __init__(self, code: str, reason: str, decision: "Decision | None" = None) -> None:
        super().__init__(code, reason, decision)
        self.code = code
        """The machine-readable code, such as `session_killed_loop_guard` or `no_verdict`."""
        self.reason = reason
        """The text for the model, of at most 400 characters: the same in every integration."""
        self.decision = decision
        """The decision behind it, with the operator's reason; None if it is known from the control topic only, or there
        was no verdict.
        """
        self.hints = ""
        """Further text for the model: hints for this call, or from before it. Not part of `str()`, as `on_advice` was
        called with them.
        """

    def __str__(self) -> str:
        return self.reason
