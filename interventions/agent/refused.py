"""The one exception that the agent's side raises into an agent's code."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from haltline.schemas.decisions import Decision

NO_VERDICT = "no_verdict"
"""The code of a call that was refused because nobody could be asked, and it could do harm."""


class Refused(Exception):
    """The call was not executed, and must not be tried again as it is.

    `str()` of it is what the model may see. It says nothing of thresholds.
    """

    def __init__(self, code: str, reason: str, decision: "Decision | None" = None) -> None:
        super().__init__(code, reason, decision)
        self.code = code
        """For machines, such as `session_killed_loop_guard` or `no_verdict`."""
        self.reason = reason
        """For the model: one or two sentences."""
        self.decision = decision
        """The decision behind it, with the operator's reason; None when it is known from the control
        topic only, or when there was no verdict."""
        self.hints = ""
        """What the model should hear besides: hints for this call, or from before it. Not part of `str()`, as
        `on_advice` was called with them."""

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"
