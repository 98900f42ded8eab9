"""States to which a session can go back: of a git work tree, of a folder, or by functions of the agent's own."""

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
