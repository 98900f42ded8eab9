"""Checkpoints of a git work tree, as commits under separate refs.

They are like those of `git stash create --include-untracked`, but with a separate index: HEAD and the user's index,
branches and stash stay unchanged, no hook runs, and ignored files are neither saved nor removed. A restore first saves
the current state in the same way, so that uncommitted and untracked work is not lost; then it restores the files and
compares the trees.
"""

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from haltline.interventions.agent.checkpoints.base import CannotKeep, CannotRestore, Restored
from haltline.interventions.agent.checkpoints.git_commands import IDENTITY, GitFailed, git
from haltline.schemas import expressions as re

_REFS: Final = "refs/haltline"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class GitCheckpoints:
    """Checkpoints of the work tree that contains `folder`.

    `max_file_bytes`: larger untracked files are ignored. Raises ValueError without a work tree, or without git.
    """

    def __init__(
        self, folder: str | os.PathLike[str] = ".", *, max_file_bytes: int = 50 * 1024 * 1024, timeout_s: float = 60.0
    ) -> None:
        self._timeout_s = timeout_s
        self._max_file_bytes = max_file_bytes
        self._lock = threading.Lock()
        self._root = Path(folder)
        try:
            self._root = Path(self._git("rev-parse", "--show-toplevel").rstrip("\n"))
        except (GitFailed, OSError) as error:
            raise ValueError(f"{folder}: expected a folder in a git work tree: {error}") from error

    def keep(self, checkpoint_id: str) -> None:
        """Save the current tracked and untracked files. Raises CannotKeep."""
        try:
            with self._lock:
                self._commit(_ref(checkpoint_id), f"checkpoint {checkpoint_id}")
        except (GitFailed, OSError) as error:
            raise CannotKeep(f"checkpoint {checkpoint_id}: {error}") from error

    def restore(self, checkpoint_id: str) -> Restored:
        """Restore the files. Raises CannotRestore, which states whether anything was changed."""
        with self._lock:
            try:
                kept = self._git("rev-parse", "--verify", "--quiet", f"{_ref(checkpoint_id)}^{{tree}}").strip()
            except (GitFailed, OSError) as error:
                raise CannotRestore(f"checkpoint {checkpoint_id} is not known here; nothing was changed") from error
            before = f"{_ref(checkpoint_id)}-before-going-back"
            try:
                # A new ref for each restore: the second restore does not overwrite the state saved by the first.
                number = len(self._git("for-each-ref", "--format=%(refname)", f"{before}-*").splitlines()) + 1
                before = f"{before}-{number}"
                names = self._names(kept)
                # Include ignored or too large files, if they are in the way of restored ones.
                now = self._commit(before, f"before going back to checkpoint {checkpoint_id}", self._there(names))
                back, gone, left = self._plan(kept, now)
            except (GitFailed, OSError) as error:
                raise CannotRestore(f"the current content cannot be saved, so nothing was changed: {error}") from error
            try:
                self._make(kept, back, gone)
                current = self._tree(self._there(names), left)
            except (GitFailed, OSError) as error:
                raise CannotRestore(
                    f"not everything was restored; the replaced content is kept as {before}: {error}"
                ) from error
            if current != kept:
                raise CannotRestore(f"the files are not as they were (tree {current}, expected {kept}); see {before}")
            return Restored(checkpoint_id, len(back), len(gone), f"the files are tree {current[:12]}, as kept", before)

    def _commit(self, ref: str, message: str, also: Sequence[str] = ()) -> str:
        """Commit the current state. Returns its tree."""
        tree = self._tree(also)
        with contextlib.suppress(GitFailed):
            head = self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
            commit = self._git("commit-tree", tree, "-p", head, "-m", message, env=IDENTITY).strip()
            self._git("update-ref", ref, commit)
            return tree
        commit = self._git("commit-tree", tree, "-m", message, env=IDENTITY).strip()  # no commit yet
        self._git("update-ref", ref, commit)
        return tree

    def _tree(self, also: Sequence[str] = (), without: Sequence[str] = ()) -> str:
        """Return the tree of the current state: tracked and untracked files, without ignored or too large ones.

        `also`: files to include in any case. `without`: files to exclude.
        """
        with self._index() as env:
            with contextlib.suppress(GitFailed):  # no commit yet
                self._git("read-tree", "HEAD", env=env)
            self._git("add", "--update", ".", env=env)
            others = self._git("ls-files", "--others", "--exclude-standard", "-z", env=env).split("\0")
            small = [name for name in others if name and self._is_small(name)]
            if small or also:
                self._git("update-index", "--add", "-z", "--stdin", env=env, stdin=_lines([*small, *also]))
            if without:
                self._git("update-index", "--force-remove", "-z", "--stdin", env=env, stdin=_lines(without))
            return self._git("write-tree", env=env).strip()

    def _names(self, tree: str) -> list[str]:
        """Return the files and links of a tree."""
        listed = self._git("ls-tree", "-r", "-z", tree).split("\0")
        return [entry.partition("\t")[2] for entry in listed if entry and not entry.startswith("160000")]

    def _there(self, names: Sequence[str]) -> list[str]:
        """Return the names that are files or links now; also a file at the place of one of their folders."""
        found: dict[str, None] = {}
        for name in names:
            path = self._root
            for part in Path(name).parts:
                path /= part
                if path.is_symlink() or path.is_file():
                    found[path.relative_to(self._root).as_posix()] = None
                    break  # everything below is outside of this work tree
        return list(found)

    def _plan(self, target: str, now: str) -> tuple[list[str], list[str], list[str]]:
        """Return the files to restore, to remove, and to leave because the saved state ignores them.

        Raises GitFailed if a file that is not saved is in the way.
        """
        changed = self._git("diff-tree", "-r", "-z", "--no-renames", "--name-status", now, target).split("\0")
        pairs = list(zip(changed[0::2], changed[1::2], strict=False))
        back = [name for status, name in pairs if status != "D"]
        new = [name for status, name in pairs if status == "D"]
        ignored = self._ignored(target, new)
        # A file in the way of a restored one is saved by now, and has to be removed.
        left = [name for name in new if name in ignored and not any(_is_above(name, one) for one in back)]
        staying = frozenset(left)
        gone = [name for name in new if name not in staying]
        kept = frozenset(gone)
        for name in back:
            path = self._root / name
            if path.is_dir() and not path.is_symlink():
                for folder, _, files in os.walk(path):
                    for file in files:
                        lost = Path(folder, file).relative_to(self._root).as_posix()
                        if lost not in kept:
                            raise GitFailed(f"{name} is a folder now, and {lost} in it would be lost")
        return back, gone, left

    def _ignored(self, tree: str, names: Sequence[str]) -> frozenset[str]:
        """Return the names that the tree's own .gitignore files ignore."""
        if not names:
            return frozenset()
        rules = [name for name in self._names(tree) if Path(name).name == ".gitignore"]
        with self._index() as env, tempfile.TemporaryDirectory(prefix="haltline-") as folder:
            there = {
                **env,
                "GIT_DIR": self._git("rev-parse", "--absolute-git-dir").rstrip("\n"),
                "GIT_WORK_TREE": folder,
            }
            self._git("read-tree", tree, env=there, folder=folder)
            if rules:
                self._git("checkout-index", "-z", "--stdin", env=there, stdin=_lines(rules), folder=folder)
            listed = self._git(
                "check-ignore", "--no-index", "-z", "--stdin", env=there, stdin=_lines(names), folder=folder, none=1
            )
            return frozenset(listed.split("\0"))

    def _make(self, kept: str, back: Sequence[str], gone: Sequence[str]) -> None:
        """Restore the files of a tree."""
        for name in gone:  # first, as a file may be in the place of a folder
            self._remove(name)
        if back:
            with self._index() as env:
                self._git("read-tree", kept, env=env)
                self._git("checkout-index", "--force", "-z", "--stdin", env=env, stdin=_lines(back))

    def _remove(self, name: str) -> None:
        path = self._root / name
        if path.parent.resolve() != self._root.resolve() / Path(name).parent:
            return  # a folder above it became a link: its content is outside of this work tree
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        for folder in Path(name).parents:
            try:
                (self._root / folder).rmdir()
            except OSError:  # not empty
                break

    def _is_small(self, name: str) -> bool:
        try:
            stat = os.lstat(self._root / name)
        except OSError:
            return False
        return not name.endswith("/") and stat.st_size <= self._max_file_bytes

    @contextlib.contextmanager
    def _index(self) -> Iterator[dict[str, str]]:
        with tempfile.TemporaryDirectory(prefix="haltline-") as folder:
            yield {"GIT_INDEX_FILE": str(Path(folder, "index"))}

    def _git(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        folder: str | None = None,
        none: int = 0,
    ) -> str:
        """Return the output of a git command in this repository.

        `none`: the exit code for "nothing found".
        """
        given = None if stdin is None else stdin.encode(errors="surrogateescape")
        done = git(folder or self._root, *args, timeout_s=self._timeout_s, env=env, stdin=given, none=none)
        return done.decode(errors="surrogateescape")


def _lines(names: Sequence[str]) -> str:
    return "\0".join(names) + "\0"


def _is_above(name: str, other: str) -> bool:
    return other.startswith(f"{name}/")


def _ref(checkpoint_id: str) -> str:
    """Return a ref for any id: invalid characters are replaced, and a digest keeps such ids distinct."""
    plain = _UNSAFE.sub("-", checkpoint_id)[:80].strip(".-").replace("..", "-") or "checkpoint"
    suffix = "" if plain == checkpoint_id and not plain.endswith(".lock") else "-" + blake2b(
        checkpoint_id.encode(errors="replace"), digest_size=6
    ).hexdigest()  # fmt: skip
    return f"{_REFS}/{plain}{suffix}"
