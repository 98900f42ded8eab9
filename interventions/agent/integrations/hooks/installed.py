"""Which settings files the hook was installed in, and whether they still are as they were then.

`haltline hook install` notes each file in the user's `~/.config/haltline/hooks`, with a digest of what of it concerns
the guard. The local service compares them at each hook: a file that has not been written since costs one `stat`.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from haltline.interventions.agent.user_files import open_file, replace_file
from haltline.schemas import expressions as re

PROGRAM: Final = re.compile(
    r"""(?:(?:^|[/\s])haltline(?:\.exe)?['"]?|-m haltline\.(?:streams|cli))\s+hook(?:\s|$)"""
    r"""|/hook_client\.py(?:\W|$)"""
)
"""In the command of a hook of ours."""
_MAX_BYTES: Final = 1 << 20
_Stamp = tuple[int, int, int]


class Change(NamedTuple):
    """A file that is not as it was when the hook was installed."""

    file: str
    digest: str
    """Of what of it concerns the guard now."""


class Note(NamedTuple):
    """A file as it was when the hook was installed."""

    file: str
    root: str
    """Sessions that work below it are guarded by the file."""
    digest: str


class Installed:
    """The noted files of one user."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        home = environ.get("HOME", "")
        self._home = os.path.realpath(home)
        self._folder = Path(home, ".config/haltline/hooks") if home.startswith("/") else None
        self._notes: list[Note] = []
        self._noted_ns = 0
        self._read: dict[Path, tuple[_Stamp | None, str]] = {}

    def note(self, file: Path, root: Path | None) -> None:
        """Note a file as it is now. `root`: sessions below it are guarded by the file; if it is HOME, all are.

        None: the hook was uninstalled.
        """
        if self._folder is None:
            return
        place = self._folder / f"{blake2b(os.fsencode(file), digest_size=16).hexdigest()}.json"
        if root is None:
            place.unlink(missing_ok=True)
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(place, (json.dumps(Note(str(file), os.path.realpath(root), _digest(_content(file)))).encode(),))

    def changes(self, place: str) -> Iterator[Change]:
        """Yield the files that have changed and guard a session which works at a place."""
        for file, root, digest in self._known():
            if root == self._home or Path(place).is_relative_to(root):
                now = self._digest_of(Path(file))
                if now != digest:
                    yield Change(file, now)

    def notes(self) -> list[tuple[Note, bool]]:
        """Return the noted files, and whether each is as it was then."""
        return [(note, self._digest_of(Path(note.file)) == note.digest) for note in self._known()]

    def _known(self) -> list[Note]:
        """Return the notes; those last read, if their folder was removed."""
        with contextlib.suppress(OSError):
            if self._folder is not None and (changed_ns := self._folder.stat().st_mtime_ns) != self._noted_ns:
                self._notes, self._noted_ns = [*_notes_in(self._folder)], changed_ns
        return self._notes

    def _digest_of(self, file: Path) -> str:
        stamp = _stamp(file)
        if file not in self._read or self._read[file][0] != stamp:
            self._read[file] = stamp, _digest(_content(file))
        return self._read[file][1]


def _notes_in(folder: Path) -> Iterator[Note]:
    for place in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            yield Note(*map(str, json.loads(place.read_bytes())))


def own_part(content: bytes) -> bytes:
    """Return what of a settings file concerns the guard: of JSON our hooks, whether hooks run, and our variables."""
    try:
        settings = json.loads(content or b"{}")
        hooks = settings.get("hooks") or {}
        ours = {event: [one for entry in hooks[event] for one in _ours(entry)] for event in hooks}
        variables = {name: value for name, value in (settings.get("env") or {}).items() if name.startswith("HALTLINE_")}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return content
    part = [{name: kept for name, kept in ours.items() if kept}, settings.get("disableAllHooks") is True, variables]
    return json.dumps(part, indent=1, sort_keys=True).encode()


def _ours(entry: Mapping[str, Any]) -> list[Any]:
    commands = [str(one.get("command", "")) for one in entry.get("hooks") or ()]
    return [[entry.get("matcher"), command] for command in commands if PROGRAM.search(command)]


def _digest(content: bytes) -> str:
    return blake2b(own_part(content), digest_size=16).hexdigest()


def _content(file: Path) -> bytes:
    try:
        with open_file(file) as opened:
            return opened.read(_MAX_BYTES)
    except OSError:
        return b""


def _stamp(file: Path) -> _Stamp | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
