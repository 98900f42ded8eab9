"""Checkpoints that the agent's own code makes: a database's, a sandbox's, a framework's."""

from collections.abc import Callable

from haltline.interventions.agent.checkpoints.base import CannotKeep, CannotRestore, Restored


class CallbackCheckpoints:
    """`keep(id)` and `restore(id)` of your own; what `restore` returns is the proof, in words.

    An exception of theirs means that it was not done, and is reported so.
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
