"""Files in places that others can change too: opened only if they are regular, and written for this user alone."""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_NAME_CHARS: Final = 100


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for anything else, on which it does not wait.

    A pipe to which nobody writes would be waited for, and a device has no end.
    """
    _require_regular(path.stat(), path)  # before it is opened: a device may do something when it is
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115 - the caller's
    try:
        _require_regular(os.fstat(file.fileno()), path)  # the file that was opened: it may be another one by now
    except OSError:
        file.close()
        raise
    return file


def write_file(file: Path, lines: Iterable[bytes]) -> None:
    """Write a file that a user has named: as `replace_file`, or to the pipe or terminal that it is. Raises OSError."""
    if file.exists() and not file.is_file():
        file.write_bytes(b"".join(lines))
    else:
        replace_file(file, lines)


def replace_file(file: Path, lines: Iterable[bytes]) -> None:
    """Put a file that only this user can read in place of whatever is there, whole or not at all. Raises OSError."""
    new = file.with_name(f".{file.name[:_NAME_CHARS]}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.writelines(lines)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def _require_regular(found: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"expected a file, got {_KINDS.get(kind, 'something else')}", str(path))
