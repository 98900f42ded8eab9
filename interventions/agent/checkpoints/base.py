"""What a guard asks of whatever keeps states of the work, and puts them back; functions that do."""

from collections.abc import Callable
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


class CallbackCheckpoints:
    """`keep(id)` and `restore(id)` of your own, for a database, a sandbox, a framework.

    What `restore` returns is the proof, in words. An exception of theirs means that it was not done.
    """

    def __init__(self, *, keep: Callable[[str], object], restore: Callable[[str], object]) -> None:
        self._keep = keep
        self._restore = restore

    def keep(self, checkpoint_id: str) -> None:
        """Raises CannotKeep when the callback raises."""
        try:
            self._keep(checkpoint_id)
        except Exception as error:
            raise CannotKeep(f"checkpoint {checkpoint_id}: {type(error).__name__}: {error}") from error

    def restore(self, checkpoint_id: str) -> Restored:
        """Raises CannotRestore when the callback raises."""
        try:
            restored = self._restore(checkpoint_id)
        except Exception as error:
            raise CannotRestore(f"checkpoint {checkpoint_id}: {type(error).__name__}: {error}") from error
        return (
            restored
            if isinstance(restored, Restored)
            else Restored(checkpoint_id, proof="" if restored is None else str(restored))
        )
