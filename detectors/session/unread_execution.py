"""The session is about to run a text that could not be read to its end, so that its effects are unknown.

Fires: `unread_execution` (high) on an attempt that runs a command line, a statement or a program, or that destroys, if
    its arguments were truncated before they were published, or if its text is longer, more deeply nested or more work
    to analyse than the limits allow (see `commands.step_budget`).
Quiet: long texts that are only written or searched for; refused attempts.
Misses: producers that truncate without marking it (`unread_from`, or a mark at the end of the text).
"""

from typing import ClassVar

from haltline.detectors.commands.model import MAX_COMMAND_CHARS
from haltline.detectors.features.call_destructions import is_read_whole
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Attempts, OfAttempts, settings
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity

_LONG_CHARS = 8192
"""A shorter text that ends with `[cut]` was not truncated by the producer."""


@settings
class UnreadExecution(OfAttempts[Attempts]):
    """Any attempt to run a text that was not read to its end."""

    id: ClassVar[str] = "unread_execution"

    def concerns(self, act: Observation) -> bool:
        """Attempts to run, or destroy by, a text that was not read to its end."""
        if act.event.unread_from is not None:
            return act.runs or act.effect is Effect.DESTRUCTIVE
        return act.runs and act.text != "" and not _is_whole(act)

    def observe(self, state: Attempts, act: Observation) -> Finding | None:
        """Report the position at which the unread text begins."""
        state.attempts += 1
        unread_from = act.event.unread_from
        at = MAX_COMMAND_CHARS if unread_from is None else unread_from
        return self.finding(
            "unread_execution",
            Severity.HIGH,
            f"{act.action:.60} runs a text that was read only up to character {at}",
            (act.evidence,),
            values={"unread_from": at, "attempts": state.attempts},
            thresholds={"max_chars": MAX_COMMAND_CHARS},
        )


def _is_whole(act: Observation) -> bool:
    text = act.text
    if len(text) > MAX_COMMAND_CHARS or (len(text) > _LONG_CHARS and text.endswith("[cut]")):
        return False
    return is_read_whole(text, act.tool.reading, act.cwd)
