"""`haltline undo`: brings back uncommitted work that a call has discarded."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.common import AsJson, Exit, fail, print_json, say

if TYPE_CHECKING:
    from haltline.interventions.agent.checkpoints import Restored


def undo(
    snapshot: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The snapshot to restore, or the beginning of its id; without one, list all."
        ),
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """List the snapshots of this folder's repository, or restore one.

    Guards and hooks take them before a call that discards uncommitted work. What is there now is kept as a further
    snapshot before anything is restored.

    Exit codes: 0 listed or restored; 1 not restored; 2 this folder is in no git work tree.

    Example: haltline undo 4f3a2b1c
    """
    import os
    from datetime import datetime

    from haltline.cli.tables import print_table
    from haltline.interventions.agent.checkpoints import CannotRestore
    from haltline.interventions.agent.checkpoints.git_commands import GitFailed
    from haltline.interventions.agent.snapshots.repository import Repository, root_of

    root = root_of(os.path.realpath(os.getcwd()))
    if root is None:
        fail(f"{os.getcwd()}: expected a folder in a git work tree, got one outside of any", Exit.USAGE)
    repository = Repository(root)
    try:
        if snapshot:
            restored = repository.restore(snapshot)
            if as_json:
                print_json([asdict(restored)])
            else:
                what_was = f"what was there is kept: haltline undo {restored.kept_as}"
                say(f"restored {restored.checkpoint}: {_done(restored)}; {what_was}")
            return
        found = repository.snapshots()
    except (CannotRestore, GitFailed, OSError) as error:
        fail(str(error), Exit.NO)
    if as_json:
        print_json([{"id": one.id, **asdict(one.about)} for one in found])
        return
    rows = [
        (
            one.id,
            datetime.fromtimestamp(one.about.time_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds"),
            str(one.about.files),
            one.about.before,
            one.about.session,
            "" if one.about.root == root else one.about.root,
        )
        for one in found
    ]
    if not print_table(("id", "taken", "files", "before", "session", "other work tree"), rows):
        say(f"no snapshots in {root}")


def _done(restored: "Restored") -> str:
    files = "1 file" if restored.put_back == 1 else f"{restored.put_back} files"
    stashes = "1 stash" if restored.stashes == 1 else f"{restored.stashes} stashes"
    done = [f"{files} put back"] if restored.put_back or not restored.stashes else []
    done += [f"{stashes} put back"] if restored.stashes else []
    return ", ".join([*done, f"{restored.removed} removed"] if restored.removed else done)
