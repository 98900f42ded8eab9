"""Checkpoints of a folder as copies in another one, of bounded size, without excluded files.

Excluded files are neither saved nor changed. Links are saved as links. Modes are saved, owners and times are not. A
restore first saves the current state as one more copy; if there is no room for it, nothing is changed.
"""

import os
import shutil
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from haltline.interventions.agent.checkpoints.base import CannotKeep, CannotRestore, Restored

EXCLUDED: Final = (".git", "node_modules", ".venv", "__pycache__", ".cache")


class _Entry(NamedTuple):
    """A file or link."""

    mode: int
    digest: bytes
    size_bytes: int


class _Copy(NamedTuple):
    folder: Path
    entries: dict[str, _Entry]


class FolderCheckpoints:
    """Checkpoints of the files below `folder`.

    `exclude`: globs of names, or of paths below it such as `build/*.o`. `max_bytes`: limit of one copy. `max_kept`:
    number of copies, the oldest is removed first. `store`: the folder of the copies; by default a new one in the
    system's temporary folder. Raises ValueError if `folder` does not exist, or contains `store`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        store: str | os.PathLike[str] | None = None,
        exclude: tuple[str, ...] = EXCLUDED,
        max_bytes: int = 256 * 1024 * 1024,
        max_kept: int = 8,
    ) -> None:
        self._root = Path(folder).resolve()
        if not self._root.is_dir():
            raise ValueError(f"{folder}: expected a folder")
        if store is not None and Path(store).resolve().is_relative_to(self._root):
            raise ValueError(f"store {store}: expected a folder outside of {folder}")
        self._store = Path(store).resolve() if store is not None else Path(tempfile.mkdtemp(prefix="haltline-"))
        self._store.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._exclude = exclude
        self._max_bytes = max_bytes
        self._max_kept = max(2, max_kept)
        self._kept: OrderedDict[str, _Copy] = OrderedDict()
        self._went_back = 0
        self._lock = threading.Lock()

    def keep(self, checkpoint_id: str) -> None:
        """Copy the current state. Raises CannotKeep if it is too large or cannot be read."""
        try:
            with self._lock:
                self._copy(checkpoint_id)
        except OSError as error:
            raise CannotKeep(f"checkpoint {checkpoint_id}: {error}") from error

    def restore(self, checkpoint_id: str) -> Restored:
        """Restore the files. Raises CannotRestore, which states whether anything was changed."""
        with self._lock:
            kept = self._kept.get(checkpoint_id)
            if kept is None:
                raise CannotRestore(f"checkpoint {checkpoint_id} is not known here; nothing was changed")
            self._kept.move_to_end(checkpoint_id)  # so that the copy of the current state does not remove it
            try:
                # A new copy for each restore: the second restore does not overwrite the copy of the first.
                self._went_back += 1
                before = self._copy(f"before going back to {checkpoint_id} ({self._went_back})")
            except (OSError, CannotKeep) as error:
                raise CannotRestore(f"the current content cannot be saved, so nothing was changed: {error}") from error
            try:
                put_back, removed = self._make(kept, before)
                current = self._entries()
            except OSError as error:
                raise CannotRestore(
                    f"not everything was restored; the replaced content is kept in {before.folder}: {error}"
                ) from error
            if current != kept.entries:
                differ = [name for name in {*current, *kept.entries} if current.get(name) != kept.entries.get(name)]
                raise CannotRestore(
                    f"{len(differ)} files are not as they were, {min(differ)} for one; see {before.folder}"
                )
            proof = f"{len(current)} files have the content that was kept"
            return Restored(checkpoint_id, put_back, removed, proof, str(before.folder))

    def _copy(self, checkpoint_id: str) -> _Copy:
        entries = self._entries()
        size = sum(entry.size_bytes for entry in entries.values())
        if size > self._max_bytes:
            raise CannotKeep(
                f"checkpoint {checkpoint_id}: {self._root}: expected at most {self._max_bytes} bytes, got {size}"
            )
        folder = Path(tempfile.mkdtemp(prefix="kept-", dir=self._store))
        try:
            for name, entry in entries.items():
                _put(self._root / name, folder / name, entry)
        except BaseException:  # an incomplete copy is useless, and must not fill the disk
            shutil.rmtree(folder, ignore_errors=True)
            raise
        replaced = self._kept.pop(checkpoint_id, None)
        copied = self._kept[checkpoint_id] = _Copy(folder, entries)
        if replaced is not None:
            shutil.rmtree(replaced.folder, ignore_errors=True)
        while len(self._kept) > self._max_kept:
            shutil.rmtree(self._kept.popitem(last=False)[1].folder, ignore_errors=True)
        return copied

    def _make(self, kept: _Copy, now: _Copy) -> tuple[int, int]:
        gone = [name for name in now.entries if name not in kept.entries]
        back = [name for name, entry in kept.entries.items() if now.entries.get(name) != entry]
        for name in gone:
            (self._root / name).unlink(missing_ok=True)
            for folder in list(PurePosixPath(name).parents)[:-1]:
                with suppress(OSError):  # not empty
                    (self._root / folder).rmdir()
        for name in back:
            _put(kept.folder / name, self._root / name, kept.entries[name])
        return len(back), len(gone)

    def _entries(self) -> dict[str, _Entry]:
        """Return all files and links that are not excluded, by their path below the folder."""
        return dict(sorted(self._walk(self._root, PurePosixPath())))

    def _walk(self, folder: Path, below: PurePosixPath) -> Iterator[tuple[str, _Entry]]:
        with os.scandir(folder) as found:
            for item in found:
                name = below / item.name
                if any(fnmatchcase(item.name, glob) or fnmatchcase(str(name), glob) for glob in self._exclude):
                    continue
                if item.is_symlink():
                    target = os.fsencode(os.readlink(item.path))
                    yield str(name), _Entry(stat.S_IFLNK, target, len(target))
                elif item.is_dir():
                    yield from self._walk(Path(item.path), name)
                elif item.is_file():
                    status = item.stat()
                    with open(item.path, "rb") as file:
                        digest = file_digest(file, "blake2b").digest()
                    yield str(name), _Entry(stat.S_IMODE(status.st_mode), digest, status.st_size)


def _put(source: Path, target: Path, entry: _Entry) -> None:
    """Replace the target with a file or link, atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name[:100]}.haltline-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    if entry.mode == stat.S_IFLNK:
        fresh.symlink_to(os.fsdecode(entry.digest))
    else:
        shutil.copyfile(source, fresh, follow_symlinks=False)
        fresh.chmod(entry.mode)
    if target.is_dir() and not target.is_symlink():
        target.rmdir()  # remaining files are excluded and not ours to remove: then this fails
    fresh.replace(target)
