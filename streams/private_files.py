"""Files and folders for this user alone."""

import os
from collections.abc import Iterable
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


def write_file(file: Path, lines: Iterable[bytes]) -> None:
    """Write a file that only this user can read, whole or not at all. Raises OSError."""
    if file.exists() and not file.is_file():  # a pipe or a terminal
        file.write_bytes(b"".join(lines))
        return
    new = file.with_name(f".haltline.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.writelines(lines)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
