"""The session works with a shell that no longer answers.

Fires: `silent_shell` by `silent` command lines in a row, of those that must print something (`pwd`, `git status`,
    `echo ready`, `ls -la`), that were reported as successful and printed nothing. One that nearly always prints, such
    as `ls` or `cat notes.md`, counts half.
Quiet: commands that print nothing when they succeed, and those whose output goes to a file or a filter: they neither
    count nor end the row. Any output of the shell, or an error, ends it. Keys that are sent to a terminal, and commands
    in the background.
Misses: a shell that answers with its prompt only; one that hangs (see `fruitless_waits`).
"""

from typing import ClassVar

from msgspec import field

from haltline.detectors.commands.rows import expression_of
from haltline.detectors.features import command_effects
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.outward import stays
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.severity_counts import ManyCounts
from haltline.detectors.framework.window import Entry, entry, evidence, seconds
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Reading
from haltline.schemas.stored import Stored

_SHELL = Reading.SHELL
_WEIGHT = 4
_MAX_ROWS = 32
_READ_CHARS = 200
_KEYS = re.compile(r"key|stdin|input", re.IGNORECASE)
_SAYS_NOTHING = expression_of("a shell says nothing")
"""What harnesses report of a command that printed nothing."""


class SilentShellState(Stored):
    """The last command lines in a row that should have printed something."""

    rows: list[Entry] = field(default_factory=list)


@settings
class SilentShell(Detector[SilentShellState]):
    """Commands in a row that must print something, and print nothing."""

    id: ClassVar[str] = "silent_shell"
    sees: ClassVar[Trait] = Trait.DONE

    silent: ManyCounts = (4, 5, 6)
    """Thresholds of medium, high and critical findings: command lines in a row."""

    def concerns(self, act: Observation) -> bool:
        """Results of command lines."""
        return act.runs and act.tool.reading is _SHELL and (act.failed or act.event.output_head is not None)

    def observe(self, state: SilentShellState, act: Observation) -> Finding | None:
        """Count a command line that printed nothing, or end the row."""
        if act.failed or not _printed_nothing(act.event, act.text):
            if state.rows:
                state.rows = []
            return None
        weight = 0.0 if _KEYS.search(act.action) or stays(act) else command_effects.must_print(act.text)
        if not weight:
            return None
        state.rows = [*state.rows, entry(act, weight)][-_MAX_ROWS:]
        count = sum(float(row[_WEIGHT]) for row in state.rows)
        if count < self.silent[0]:
            return None
        return self.counted(
            "silent_shell",
            count,
            self.silent,
            f"{len(state.rows)} commands in a row in {seconds(state.rows)}s that must print something printed nothing,"
            f" the last {act.text:.120}",
            evidence(act, state.rows),
            commands=len(state.rows),
            counted=count,
        )

    def near(self, state: SilentShellState) -> float:
        """The commands in a row, relative to the first count that is a finding."""
        return min(1.0, sum(float(row[_WEIGHT]) for row in state.rows) / self.silent[0])


def _printed_nothing(event: ActionEvent, command: str) -> bool:
    head, size = event.output_head or "", event.output_bytes
    if len(head) > _READ_CHARS:
        return False
    if not head.strip():
        return not size or size <= len(head.encode())
    low = head.lower()
    if _SAYS_NOTHING.fullmatch(low) is None:
        return False
    return not any(len(word) > 1 and word in low for word in command.lower().split())
