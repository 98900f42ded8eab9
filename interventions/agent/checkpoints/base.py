"""What a guard asks of whatever keeps states of the work, and puts them back."""

from dataclasses import dataclass
from typing import Protocol


class CannotKeep(Exception):
    """The state was not kept; says why."""


class CannotRestore(Exception):
    """Nothing was put back, or not all of it; says which, and why."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What was done, and how it is known that it was."""

    checkpoint: str
    put_back: int = 0
    """Files that were made again or changed back."""
    removed: int = 0
    """Files that were not there when the checkpoint was made."""
    proof: str = ""
    """What was compared after it was done."""
    kept_as: str = ""
    """Where that is kept which was there before: nothing is lost by going back."""

    def __str__(self) -> str:
        summary = f"checkpoint {self.checkpoint}: {self.put_back} files put back, {self.removed} removed"
        proof = f"; {self.proof}" if self.proof else ""
        return summary + proof + (f"; what was there before is kept as {self.kept_as}" if self.kept_as else "")


class Checkpoints(Protocol):
    """Called from a thread of the guard's; may take its time."""

    def keep(self, checkpoint_id: str) -> None:
        """Keep the present state under this id. Raises CannotKeep."""

    def restore(self, checkpoint_id: str) -> Restored:
        """Make the state as it was, and keep what was there before. Raises CannotRestore."""
