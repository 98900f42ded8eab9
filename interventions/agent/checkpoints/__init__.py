"""Checkpoints to restore the work of a session: of a git work tree, of a folder, or by the author's functions."""

from haltline.interventions.agent.checkpoints.base import (
    CallbackCheckpoints,
    CannotKeep,
    CannotRestore,
    Checkpoints,
    Restored,
)
from haltline.interventions.agent.checkpoints.folder import FolderCheckpoints
from haltline.interventions.agent.checkpoints.git import GitCheckpoints

__all__ = [
    "CallbackCheckpoints",
    "CannotKeep",
    "CannotRestore",
    "Checkpoints",
    "FolderCheckpoints",
    "GitCheckpoints",
    "Restored",
]
