"""Work trees of git for tests of snapshots."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.programs import printed


def git(folder: Path, *args: str) -> str:
    options = ["-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always"]
    return printed("git", *options, *args, cwd=folder)


def write(folder: Path, texts: Mapping[str, str | bytes]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def repository(folder: Path, texts: Mapping[str, str | bytes]) -> Path:
    """A new repository with one commit; without files, with none."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    write(folder, texts)
    if texts:
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "first")
    return folder


def state(folder: Path) -> tuple[str, dict[str, bytes]]:
    """What git says of a work tree, and its files."""
    files = {
        str(path.relative_to(folder)): os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if ".git" not in path.relative_to(folder).parts and (path.is_symlink() or path.is_file())
    }
    return git(folder, "status", "--porcelain=v2", "--no-renames", "--untracked-files=all"), files
