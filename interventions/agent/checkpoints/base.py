"""The interface of checkpoints, and an implementation with the author's functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class CannotKeep(Exception):
    """The state was not saved; the text has the reason."""


class CannotRestore(Exception):
    """The state was not restored, or in part only; the text has the details."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore, with its proof."""

    checkpoint: str
    put_back: int = 0
    """Files that were restored."""
    removed: int = 0
    """Files that were removed, as they did not exist at the checkpoint."""
    proof: str = ""
    """The comparison made after the restore."""
    kept_as: str = ""
    """Where the state before the restore is saved: a restore loses nothing."""
    stashes: int = 0
    """Stashes of git that were put back."""

    def __str__(self) -> str:
        summary = f"checkpoint {self.checkpoint}: {self.put_back} files restored, {self.removed} removed"
        proof = f"; {self.proof}" if self.proof else ""
        return summary + proof + (f"; what was there before is kept as {self.kept_as}" if self.kept_as else "")


class Checkpoints(Protocol):
    """Saves and restores states of the work. Called from a thread of the guard; may be slow."""

    def keep(self, checkpoint_id: str) -> None:
        """Save the current state under this id. Raises CannotKeep."""

    def restore(self, checkpoint_id: str) -> Restored:
        """Restore the state, and save the one before. Raises CannotRestore."""


class CallbackCheckpoints:
    """Checkpoints by your own `keep(id)` and `restore(id)`, for a database, a sandbox, a framework.

    The return value of `restore` is the proof, as text. An exception means that it failed.
    """

    def __init__(self, *, keep: Callable[[str], object], restore: Callable[[str], object]) -> None:
        self._keep = keep
        self._restore = restore

    def keep(self, checkpoint_id: str) -> None:
        """Save the state. Raises CannotKeep if the callback raises."""
        try:
            self._keep(checkpoint_id)
        except Exception as error:
            raise CannotKeep(f"checkpoint {checkpoint_id}: {type(error).__name__}: {error}") from error

    def restore(self, checkpoint_id: str) -> Restored:
        """Restore the state. Raises CannotRestore if the callback raises."""
        try:
            restored = self._restore(checkpoint_id)
        except Exception as error:
            raise CannotRestore(f"checkpoint {checkpoint_id}: {type(error).__name__}: {error}") from error
        return (
            restored
            if isinstance(restored, Restored)
            else Restored(checkpoint_id, proof="" if restored is None else str(restored))
        )
