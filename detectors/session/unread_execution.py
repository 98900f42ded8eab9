"""The session is about to run what nobody could read to its end, so that nobody knows what it does.

Fires: `unread_execution` (high) on an attempt that runs a command line, a statement or a program, or that destroys,
    whose arguments were cut before they were published, or whose text is longer, nests deeper or takes more steps
    than what is read (see `commands.work`).
Quiet: long texts that are only written or looked for; attempts that were refused.
Misses: producers that cut and do not mark it (`unread_from`, or a mark of a cut at the end of the text).
"""

from typing import ClassVar

from haltline.detectors.commands.model import MAX_COMMAND_CHARS
from haltline.detectors.features.observation import Observation
from haltline.detectors.features.tool_classifier import cwd_of, is_read_whole
from haltline.detectors.framework.base import Attempts, OfAttempts, settings
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity

_LONG_CHARS = 8192
"""A text that is shorter was not cut by whoever wrote `[cut]` at its end."""


@settings
class UnreadExecution(OfAttempts[Attempts]):
    """Any attempt to run what was not read to its end."""

    id: ClassVar[str] = "unread_execution"

    def concerns(self, act: Observation) -> bool:
        """Attempts to run, or destroy, what was not read to its end."""
        if not act.is_attempt or act.refused:
            return False
        if act.event.unread_from is not None:
            return act.runs or act.effect is Effect.DESTRUCTIVE
        return act.runs and act.text != "" and not _is_whole(act)

    def observe(self, state: Attempts, act: Observation) -> Finding | None:
        """Says from where it is unread."""
        state.attempts += 1
        unread_from = act.event.unread_from
        at = MAX_COMMAND_CHARS if unread_from is None else unread_from
        return self.finding(
            "unread_execution",
            Severity.HIGH,
            f"{act.action:.60} runs a text that could be read up to character {at} only",
            (act.evidence,),
            values={"unread_from": at, "attempts": state.attempts},
            thresholds={"max_chars": MAX_COMMAND_CHARS},
        )


def _is_whole(act: Observation) -> bool:
    text = act.text
    if len(text) > MAX_COMMAND_CHARS or (len(text) > _LONG_CHARS and text.endswith("[cut]")):
        return False
    return is_read_whole(text, act.tool.reading, cwd_of(act.event))
