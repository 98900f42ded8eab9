"""Folders of a run for this user alone."""

from contextlib import suppress
from pathlib import Path
from typing import Final

DATA: Final = ".haltline"
"""The folder of a run's data, in the folder where it was started."""


def make_folder(folder: Path) -> None:
    """Make a folder that only this user can read, and that git leaves out. Raises OSError.

    One that had files already keeps its mode, as somebody has chosen it, unless its name is haltline's own.
    """
    if folder.parent.name == DATA:
        make_folder(folder.parent)
    is_own = folder.name == DATA or not folder.exists() or not any(folder.iterdir())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_own:
        with suppress(PermissionError):  # of somebody else, who lets us write there
            folder.chmod(0o700)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
