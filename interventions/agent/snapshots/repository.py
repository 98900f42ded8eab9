"""Snapshots in a git repository: what an act discards, as a commit under a ref of its own.

A snapshot has only the files that would be lost, byte by byte (no filter runs), and what is staged of them. HEAD, the
user's index, branches and stash stay as they are. A restore first keeps what is there now in the same way.

The tree of a snapshot has `work/PATH`, `index/PATH`, and `tracked/PATH` for files that a commit has and that are
removed with the others; its message is a line for people, and JSON.
"""

import contextlib
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from haltline.interventions.agent.checkpoints import CannotKeep, CannotRestore, Restored
from haltline.interventions.agent.checkpoints.git_commands import GitFailed, git
from haltline.interventions.agent.uploads import holds_credentials

LOOK_S: Final = 5.0
"""How long looking and keeping may take together."""
_RESTORE_S: Final = 60.0
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_FILES: Final = 2000
MAX_KEPT: Final = 100
"""Snapshots of a repository; the oldest are dropped first."""
_REFS: Final = "refs/haltline-undo"
_LINK, _PROGRAM, _FILE = "120000", "100755", "100644"
_SUBMODULE: Final = "160000"


class Specs(NamedTuple):
    """What to look at: pathspecs from the top of the work tree, none for all of it; and which work counts."""

    paths: tuple[str, ...]
    changes: bool = True
    untracked: bool = False
    ignored: bool = False
    removed: bool = False
    stashes: bool = False


class Staged(NamedTuple):
    """An entry of the index."""

    mode: str
    blob: str


@dataclass
class Lost:
    """What would be lost, by paths from the top of the work tree."""

    work: list[str] = field(default_factory=list)
    """Files whose content no commit has."""
    gone: list[str] = field(default_factory=list)
    """Files that were deleted, and that no commit lacks."""
    staged: dict[str, Staged] = field(default_factory=dict)
    unstaged: list[str] = field(default_factory=list)
    """Files whose deletion is staged."""
    tracked: dict[str, Staged] = field(default_factory=dict)
    """What a commit has, and what is removed with the rest, or is changed without anything staged."""
    stashes: list[tuple[str, str]] = field(default_factory=list)
    """Commits and messages, the newest first."""
    unkept: str = ""
    """What would be removed besides, that no snapshot keeps, and that others may have: why."""

    def __bool__(self) -> bool:
        """Return whether anything would be lost."""
        return bool(self.work or self.gone or self.staged or self.unstaged or self.stashes)

    @property
    def files(self) -> int:
        """How many files."""
        return len({*self.work, *self.staged, *self.gone, *self.unstaged, *self.tracked})


@dataclass(frozen=True)
class About:
    """What a snapshot was taken for."""

    root: str
    before: str
    """The call, such as `git reset --hard`."""
    session: str = ""
    time_ms: int = 0
    """When it was taken, in epoch milliseconds."""
    files: int = 0
    gone: tuple[str, ...] = ()
    unstaged: tuple[str, ...] = ()
    stashes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a repository."""

    id: str
    about: About


def root_of(path: str) -> str | None:
    """Return the top of the work tree that contains an absolute path; None: there is none."""
    folder = path
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


class Repository:
    """The snapshots of the repository of one work tree."""

    def __init__(self, root: str, *, budget_s: float = _RESTORE_S) -> None:
        """`budget_s`: how long all that follows may take together."""
        self.root = root
        self._until_s = time.monotonic() + budget_s

    def look(self, specs: Specs, is_scratch: Callable[[str], bool]) -> Lost:
        """Return what would be lost. `is_scratch`: whether nobody misses an untracked or ignored file.

        Raises CannotKeep for what is lost and cannot be kept; GitFailed, OSError and ValueError if it cannot be seen.
        """
        lost = self._changes(specs, is_scratch)
        if specs.removed:
            self._add_tracked(specs, lost)
        if specs.stashes:
            lost.stashes = self._stashes()
        return lost

    def keep(self, lost: Lost, *, before: str, session: str = "") -> str:
        """Keep what would be lost, and return the id of the snapshot. Raises CannotKeep, also for credentials."""
        if lost.unkept:
            raise CannotKeep(f"{self.root}: {lost.unkept}")
        for name in (*lost.work, *lost.staged):
            if holds_credentials(name):
                raise CannotKeep(f"{self.root}: {name} may hold credentials")
        try:
            about = About(
                self.root,
                before,
                session,
                time.time_ns() // 1_000_000,
                lost.files,
                tuple(lost.gone),
                tuple(lost.unstaged),
                tuple(lost.stashes),
            )
            return self._write(about, self._contents(lost.work), {"index": lost.staged, "tracked": lost.tracked})
        except (GitFailed, OSError) as error:
            raise CannotKeep(f"{self.root}: {error}") from error

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots, the newest first. Raises GitFailed."""
        listed = self._text("for-each-ref", "--format=%(refname:lstrip=2)%00%(contents:body)%00", _REFS)
        fields = listed.split("\0")
        found = []
        for name, body in zip(fields[0::2], fields[1::2], strict=False):
            with contextlib.suppress(ValueError, TypeError, KeyError):  # of another release
                found.append(Snapshot(name.strip("\n"), _about_of(json.loads(body))))
        return sorted(found, key=lambda one: one.about.time_ms, reverse=True)

    def restore(self, snapshot_id: str) -> Restored:
        """Restore what a snapshot has, and keep what is there now. Raises CannotRestore.

        `snapshot_id`: the id or its beginning. Files go only into the work tree that they were in.
        """
        known = [one for one in self.snapshots() if snapshot_id and one.id.startswith(snapshot_id)]
        if len(known) != 1:
            got = f", got the beginning of {len(known)}" if known else ""
            raise CannotRestore(
                f"{snapshot_id}: expected the id of a snapshot of this repository{got}; nothing was changed"
            )
        snapshot_id, about = known[0].id, known[0].about
        if about.files and about.root != self.root:
            raise CannotRestore(
                f"{snapshot_id}: expected the work tree {about.root}, got {self.root}; nothing was changed"
            )
        try:
            work, staged, tracked = self._read(snapshot_id)
            missing = [name for name in tracked if name not in work and not self._is_there(name)]
            for name in (*work, *about.gone, *missing):
                self._require_free(name)
            now = self._now((*work, *about.gone, *missing), (*staged, *about.unstaged, *tracked))
            staged |= {name: one for name, one in tracked.items() if name in now.unstaged}
            committed = self._committed(name for name in tracked if name in work and name not in staged)
            staged |= {name: one for name, one in committed.items() if now.staged.get(name) != one}
            kept_as = self.keep(now, before=f"haltline undo {snapshot_id}")
        except (GitFailed, OSError, CannotKeep) as error:
            raise CannotRestore(f"what is there now cannot be kept, so nothing was changed: {error}") from error
        try:
            put_back = sum(self._put(name, content) for name, content in work.items())
            removed = sum(self._remove(name) for name in about.gone)
            self._stage(staged, about.unstaged)
            put_back += self._check_out(missing)
            stashes = self._stash(about.stashes)
            differ = [name for name, content in work.items() if self._content(name) != content]
        except (GitFailed, OSError) as error:
            raise CannotRestore(f"not all was restored; what was there is kept as {kept_as}: {error}") from error
        if differ:
            raise CannotRestore(f"{len(differ)} files are not as they were, {differ[0]} for one; see {kept_as}")
        proof = f"{len(work)} files have the content that was kept"
        return Restored(snapshot_id, put_back, removed, proof, kept_as, stashes)

    # What would be lost.

    def _changes(self, specs: Specs, is_scratch: Callable[[str], bool]) -> Lost:
        options = ["--untracked-files=" + ("all" if specs.untracked else "no")]
        if specs.ignored:
            options += ["--ignored=matching"]
        listed = self._text("status", "--porcelain=v2", "-z", "--no-renames", *options, "--", *specs.paths)
        lost = Lost()
        for row in listed.split("\0"):
            sign, _, rest = row.partition(" ")
            if sign in {"?", "!"} and is_scratch(rest.rstrip("/")):
                continue
            if sign == "!":
                if holds_credentials(rest) or not specs.changes:  # all ignored files, by `git clean`
                    raise CannotKeep(f"{self.root}: {rest} is ignored")
                lost.unkept = f"{rest} is ignored"
            elif sign == "?" and not rest.endswith("/"):
                lost.work.append(rest)
            elif sign == "?" and specs.removed:
                raise CannotKeep(f"{self.root}: {rest} is a repository of its own")
            elif sign in {"1", "u"} and specs.changes:
                self._add_change(rest, specs, lost, is_unmerged=sign == "u")
        return lost

    def _add_change(self, row: str, specs: Specs, lost: Lost, *, is_unmerged: bool) -> None:
        """Add a line of `git status --porcelain=v2`: `XY sub mH mI mW hH hI path`, with more numbers if unmerged."""
        fields = row.split(" ", 9 if is_unmerged else 7)
        state, submodule, name = fields[0], fields[1], fields[-1]
        if submodule.startswith("S"):
            is_in_it = submodule[2:] != ".."
            if is_in_it and (specs.removed or self._recurses()):
                raise CannotKeep(f"{self.root}: {name} is a submodule with changes of its own")
            return
        path = os.path.join(self.root, name)
        if os.path.isdir(path) and not os.path.islink(path):
            raise CannotKeep(f"{self.root}: {name} is a folder now")
        if os.path.lexists(path):
            lost.work.append(name)
        elif not specs.removed:
            lost.gone.append(name)
        if is_unmerged:
            return
        if state[0] == "D" and not specs.removed:
            lost.unstaged.append(name)
        elif state[0] not in ".D":
            lost.staged[name] = Staged(fields[3], fields[6])
        elif state[0] == "." and name in lost.work:
            lost.tracked[name] = Staged(fields[3], fields[6])

    def _recurses(self) -> bool:
        return self._text("config", "--type=bool", "--get", "submodule.recurse", none=1).strip() == "true"

    def _add_tracked(self, specs: Specs, lost: Lost) -> None:
        """Add the other files that git knows, and changes that `git status` was told to hide."""
        known = {*lost.work, *lost.staged}
        for row in self._text("ls-files", "-v", "--stage", "-z", "--", *specs.paths).split("\0"):
            about, _, name = row.partition("\t")
            if not name or not self._is_there(name):
                continue
            sign, mode, blob, stage = about.split(" ")
            if mode == _SUBMODULE:
                lost.unkept = f"{name} is a submodule"
                continue
            if (sign.islower() or sign == "S") and name not in known:
                lost.work.append(name)
            if stage == "0" and name not in lost.staged:
                lost.tracked[name] = Staged(mode, blob)

    def _stashes(self) -> list[tuple[str, str]]:
        listed = self._text("stash", "list", "--format=%H%x00%gs%x00%x00").split("\0\0")
        return [
            (commit, message) for commit, _, message in (row.strip("\n").partition("\0") for row in listed) if commit
        ]

    # Files.

    def _is_there(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self.root, name))

    def _contents(self, names: Iterable[str]) -> dict[str, tuple[str, bytes]]:
        """Return modes and contents. Raises CannotKeep if they are too many or too large."""
        listed = list(dict.fromkeys(names))
        if len(listed) > MAX_FILES:
            raise CannotKeep(f"{self.root}: expected at most {MAX_FILES} files, got {len(listed)}")
        size = sum(os.lstat(os.path.join(self.root, name)).st_size for name in listed)
        if size > MAX_BYTES:
            raise CannotKeep(f"{self.root}: expected at most {MAX_BYTES} bytes, got {size}")
        found = {}
        for name in listed:
            content = self._content(name)
            if content is None:
                raise CannotKeep(f"{self.root}: {name} is no file")
            found[name] = content
        return found

    def _content(self, name: str) -> tuple[str, bytes] | None:
        """Return the mode and the content of a file or link; None: it is neither."""
        path = os.path.join(self.root, name)
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            return _LINK, os.fsencode(os.readlink(path))
        if not stat.S_ISREG(mode):
            return None
        return _PROGRAM if mode & stat.S_IXUSR else _FILE, Path(path).read_bytes()

    def _require_free(self, name: str) -> None:
        """Raise CannotKeep if a file cannot be put in its place without a loss."""
        path = Path(self.root)
        *folders, _ = Path(name).parts
        for folder in folders:
            path /= folder
            if path.is_symlink() or path.is_file():
                raise CannotKeep(f"{path} is in the place of a folder")
        path = Path(self.root, name)
        if path.is_dir() and not path.is_symlink() and any(path.iterdir()):
            raise CannotKeep(f"{path} is a folder now")

    def _put(self, name: str, content: tuple[str, bytes]) -> bool:
        """Restore a file or link; False: it was as it is."""
        if self._content(name) == content:
            return False
        mode, data = content
        path = Path(self.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        fresh = path.with_name(f"{path.name[:100]}.haltline-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        if mode == _LINK:
            fresh.symlink_to(os.fsdecode(data))
        else:
            fresh.write_bytes(data)
            usual = fresh.stat().st_mode
            fresh.chmod(usual | (usual & 0o444) >> 2 if mode == _PROGRAM else usual)
        fresh.replace(path)
        return True

    def _remove(self, name: str) -> bool:
        path = Path(self.root, name)
        if not (path.is_symlink() or path.is_file()):
            return False
        path.unlink()
        return True

    # Commits.

    def _write(self, about: About, work: dict[str, tuple[str, bytes]], in_git: dict[str, dict[str, Staged]]) -> str:
        """Write a snapshot with one command, and return its id."""
        snapshot_id = secrets.token_hex(4)
        head = self._text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", none=1).strip()
        message = f"haltline: before {' '.join(about.before.split())[:200]}\n\n{json.dumps(asdict(about))}\n".encode()
        stream = [b"commit %b/%b\n" % (_REFS.encode(), snapshot_id.encode())]
        stream += [b"committer haltline <haltline@localhost> %d +0000\n" % time.time(), _data(message)]
        stream += [b"from %b\n" % head.encode()] if head else []
        stream += [b"merge %b\n" % commit.encode() for commit, _ in about.stashes]
        stream += [b"deleteall\n"]
        for name, (mode, content) in work.items():
            stream += [b"M %b inline %b\n" % (mode.encode(), _quoted(f"work/{name}")), _data(content)]
        for kind, entries in in_git.items():
            for name, one in entries.items():
                stream += [b"M %b %b %b\n" % (one.mode.encode(), one.blob.encode(), _quoted(f"{kind}/{name}"))]
        self._git("fast-import", "--quiet", "--done", "--date-format=raw", stdin=b"".join([*stream, b"done\n"]))
        self._prune()
        return snapshot_id

    def _prune(self) -> None:
        refs = self._text("for-each-ref", "--sort=-committerdate", "--format=%(refname)", _REFS).split()
        if len(refs) > MAX_KEPT:
            lines = "".join(f"delete {ref}\n" for ref in refs[MAX_KEPT:])
            self._git("update-ref", "--stdin", stdin=lines.encode())

    def _read(self, snapshot_id: str) -> tuple[dict[str, tuple[str, bytes]], dict[str, Staged], dict[str, Staged]]:
        """Return the files of a snapshot, what was staged, and what else git knew."""
        rows: dict[str, dict[str, Staged]] = {"work": {}, "index": {}, "tracked": {}}
        for row in self._text("ls-tree", "-r", "-z", f"{_REFS}/{snapshot_id}").split("\0"):
            about, _, path = row.partition("\t")
            if path:
                mode, _, blob = about.split(" ")
                kind, _, name = path.partition("/")
                rows[kind][name] = Staged(mode, blob)
        files = rows["work"]
        contents = self._blobs([one.blob for one in files.values()])
        work = {name: (one.mode, content) for (name, one), content in zip(files.items(), contents, strict=True)}
        return work, rows["index"], rows["tracked"]

    def _blobs(self, blobs: Sequence[str]) -> list[bytes]:
        if not blobs:
            return []
        answer = self._git("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
        found, at = [], 0
        for _ in blobs:
            begin = answer.index(b"\n", at) + 1
            size = int(answer[at:begin].split()[2])
            found.append(answer[begin : begin + size])
            at = begin + size + 1
        return found

    def _now(self, names: Iterable[str], in_index: Sequence[str]) -> Lost:
        """Return what is there now in the place of a snapshot."""
        now = Lost()
        for name in names:
            path = os.path.join(self.root, name)
            (now.work if os.path.islink(path) or os.path.isfile(path) else now.gone).append(name)
        if in_index:
            asked = frozenset(in_index)
            for row in self._text("ls-files", "--stage", "-z").split("\0"):
                about, _, name = row.partition("\t")
                if name in asked and about.endswith(" 0"):
                    now.staged[name] = Staged(*about.split(" ")[:2])
            now.unstaged = [name for name in in_index if name not in now.staged]
        return now

    def _committed(self, names: Iterable[str]) -> dict[str, Staged]:
        """Return the entries of files in HEAD: nothing is staged of them."""
        asked = frozenset(names)
        if not asked or not self._text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", none=1):
            return {}
        rows = (row.partition("\t") for row in self._text("ls-tree", "-r", "-z", "HEAD").split("\0"))
        return {name: Staged(*about.split(" ")[::2]) for about, _, name in rows if name in asked}

    def _stage(self, staged: dict[str, Staged], unstaged: Sequence[str]) -> None:
        rows = [f"{one.mode} {one.blob} 0\t{name}\0" for name, one in staged.items()]
        rows += [f"0 {'0' * 40} 0\t{name}\0" for name in unstaged]
        if rows:
            self._git("update-index", "-z", "--index-info", stdin=os.fsencode("".join(rows)))

    def _check_out(self, names: Sequence[str]) -> int:
        """Restore files from the index that are not there."""
        if names:
            self._git("checkout-index", "-z", "--stdin", stdin=os.fsencode("".join(f"{name}\0" for name in names)))
        return len(names)

    def _stash(self, stashes: Sequence[tuple[str, str]]) -> int:
        there = {commit for commit, _ in self._stashes()} if stashes else set()
        missing = [(commit, message) for commit, message in reversed(stashes) if commit not in there]
        for commit, message in missing:
            self._git("stash", "store", "-m", message, commit)
        return len(missing)

    def _git(self, *args: str, stdin: bytes | None = None, none: int = 0) -> bytes:
        left_s = self._until_s - time.monotonic()
        return git(self.root, *args, timeout_s=left_s, stdin=stdin, none=none)

    def _text(self, *args: str, none: int = 0) -> str:
        return os.fsdecode(self._git(*args, none=none))


def _about_of(given: dict[str, Any]) -> About:
    listed = {name: tuple(given[name]) for name in ("gone", "unstaged")}
    stashes = tuple((commit, message) for commit, message in given["stashes"])
    return About(**(given | listed | {"stashes": stashes}))


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _quoted(name: str) -> bytes:
    plain = os.fsencode(name).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"%b"' % plain
