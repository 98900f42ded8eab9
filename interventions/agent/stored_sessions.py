"""Files of sessions that outlive a process, in a folder of the user's home that belongs to the user alone."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

from haltline.interventions.agent.user_files import open_file, replace_file

_OTHER_CLOCK_S: Final = 86_400.0
GUARD: Final = ".guard"
"""The kind of the file in which a guard of mode `local` keeps a stop of its session."""
ORDER: Final = ".order"
"""The kind of the file in which the local service keeps that a session is held or killed."""


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder, by `XDG_STATE_HOME` or `HOME`; `haltline hook` has the same rule, without this import."""
    home = environ.get("XDG_STATE_HOME", "")
    return Path(home if home.startswith("/") else f"{environ.get('HOME', '')}/.local/state", "haltline", "sessions")


def is_own(descriptor: int) -> bool:
    """Return whether this user owns an open file or folder; on Windows, where homes have lists of access, always."""
    return not hasattr(os, "getuid") or os.fstat(descriptor).st_uid == os.getuid()


def _own_content(file: Path) -> bytes | None:
    """Return the content; None: it cannot be read, or is of another user, who must not stop or speak to a session."""
    try:
        with open_file(file) as opened:
            return opened.read() if is_own(opened.fileno()) else None
    except OSError:
        return None


class StoredSessions:
    """The files of sessions in one folder. What cannot be written is known to this process only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, session_id: str, kind: str, *, now_s: float | None = None) -> bytes | None:
        """Return the content of a session's file of this kind; None: there is none, or it cannot be read.

        `now_s`: a file that is more than a day newer than this is left alone. The process has another clock then, as
        one that plays recorded sessions again.
        """
        file = self.file(session_id, kind)
        try:
            if now_s is not None and file.stat().st_mtime - now_s > _OTHER_CLOCK_S:
                return None
        except OSError:
            return None
        return _own_content(file)

    def write(self, session_id: str, kind: str, content: bytes) -> None:
        """Replace the content of a session's file of this kind."""
        file = self.file(session_id, kind)
        with contextlib.suppress(OSError):
            self.prepare()
            replace_file(file, (content,))

    def remove(self, session_id: str, kind: str) -> bool:
        """Remove a session's file of this kind. Returns whether there was one."""
        try:
            self.file(session_id, kind).unlink()
        except OSError:
            return False
        return True

    def read_all(self, kind: str) -> Iterator[tuple[Path, bytes]]:
        """Yield the files of this kind, of any session, and their contents."""
        for file in self._folder.glob(f"*{kind}"):
            if (content := _own_content(file)) is not None:
                yield file, content

    def prepare(self) -> None:
        """Make the folder, for this user alone. Raises OSError if it is another user's."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "nt":  # no descriptors of folders
            return
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if not is_own(folder):
                raise PermissionError(f"{self._folder}: expected a folder of this user, got another user's")
            if os.fstat(folder).st_mode & 0o077:
                os.fchmod(folder, 0o700)
        finally:
            os.close(folder)

    def file(self, session_id: str, kind: str) -> Path:
        """Return the path of a session's file of this kind."""
        return self._folder / f"{blake2b(session_id.encode(errors='replace'), digest_size=16).hexdigest()}{kind}"
