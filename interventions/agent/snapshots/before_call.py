"""Before a call that discards local work: what would be lost is kept in a snapshot.

It is looked at in a thread, for a bounded time. Work that no snapshot can, or may, hold is marked as lost, so that a
person is asked. A look that fails, or takes too long, changes nothing: the call is then decided on like any other.
"""

import glob
import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from haltline.interventions.agent.checkpoints import CannotKeep
from haltline.interventions.agent.checkpoints.git_commands import GitFailed
from haltline.interventions.agent.snapshots.own_files import OwnFiles
from haltline.interventions.agent.snapshots.repository import LOOK_S, Repository, Specs, root_of
from haltline.schemas.events import ActionEvent, Kept

if TYPE_CHECKING:
    from haltline.interventions.agent.snapshots.discards import Discard

log: Final = logging.getLogger("haltline.agent")

_MAX_TARGETS, _MAX_TARGET_CHARS = 64, 512
_GLOB: Final = frozenset("*?[")
_LOOKING: Final = threading.BoundedSemaphore(8)
"""The most looks at a time: of a file system that hangs, they hold no more threads. Calls are then decided without."""


class Looked(NamedTuple):
    """The result of a look."""

    kept: Kept
    """The mark for the event."""
    text: str = ""
    """The text for the agent; empty if nothing had to be kept."""


def look(
    event: ActionEvent, folder: str, session: str, own: OwnFiles
) -> "Generator[tuple[Future[Any], float], None, Looked | None]":
    """Return what becomes of the work that a proposed call discards, after a snapshot of it; None: it is not known.

    `folder`: where the call runs, absolute. `session`: its id. `own`: files that the session can write again.
    """
    from haltline.interventions.agent.snapshots.discards import discards, is_scratch  # noqa: PLC0415 - its readers

    found = discards(event, folder)
    if not found or len(found) > _MAX_TARGETS or any(len(one.target) > _MAX_TARGET_CHARS for one in found):
        return None
    done = Future[None]()
    looked: dict[str, Looked] = {}

    def run() -> None:
        try:
            _Look(_named(event), session, own, is_scratch, looked).look(found)
        except (GitFailed, OSError, ValueError) as error:
            log.info("haltline: session %s: no snapshot: %s", session, error)
        except Exception:
            log.exception("haltline: session %s: no snapshot", session)
        finally:
            _LOOKING.release()
            done.set_result(None)

    if not _LOOKING.acquire(blocking=False):
        return None
    threading.Thread(target=run, name="haltline-snapshot", daemon=True).start()
    yield done, LOOK_S
    return _together(list(looked.values()))


def _together(looked: list[Looked]) -> Looked | None:
    """Return one mark and text for the looks at several work trees."""
    if not looked:
        return None
    lost = dict.fromkeys(target for one in looked for target in one.kept.lost)
    targets = dict.fromkeys(target for one in looked for target in one.kept.targets if target not in lost)
    snapshots = ", ".join(one.kept.snapshot for one in looked if one.kept.snapshot)
    text = "; ".join(one.text for one in looked if one.text)
    return Looked(Kept(snapshot=snapshots or None, targets=list(targets), lost=list(lost)), text)


class _Look(NamedTuple):
    """A look at the work trees that a call discards work of."""

    before: str
    session: str
    own: OwnFiles
    is_scratch: Callable[[str], bool]
    looked: dict[str, Looked]
    """What is known so far, by work tree."""

    def look(self, found: "Iterable[Discard]") -> None:
        """Look, and keep what would be lost. Raises GitFailed, OSError and ValueError if it cannot be seen."""
        placed: dict[str, list[tuple[Discard, str]]] = {}
        for one in found:
            try:
                where = _place_of(one)
            except CannotKeep as error:
                self._loses(one.path, [one.target], error)
                continue
            if where is not None and not (where[1] and self.is_scratch(where[1])):
                placed.setdefault(where[0], []).append((one, where[1]))
        for root, acts in placed.items():
            targets = list(dict.fromkeys(one.target for one, _ in acts))
            try:
                self._look_in(root, acts, targets, is_only=len(placed) == 1)
            except CannotKeep as error:
                self._loses(root, targets, error)

    def _look_in(self, root: str, acts: "list[tuple[Discard, str]]", targets: list[str], *, is_only: bool) -> None:
        repository = Repository(root, budget_s=LOOK_S)
        lost = repository.look(_specs(acts), lambda name: self.is_scratch(name) or self._is_own(root, name))
        lost.work = [name for name in lost.work if not self._is_own(root, name)]
        if not lost:
            if not lost.unkept:
                self.looked[root] = Looked(Kept(targets=targets))
            return
        self.looked[root] = Looked(Kept(targets=[], lost=targets))  # until there is a snapshot
        snapshot = repository.keep(lost, before=self.before, session=self.session)
        what = "1 file" if lost.files == 1 else f"{lost.files} files" if lost.files else "stashes"
        place = "" if is_only else f" in {root}"
        text = f"snapshot taken: haltline undo {snapshot}{place} brings back what this call discards ({what})"
        self.looked[root] = Looked(Kept(snapshot=snapshot, targets=targets), text)

    def _loses(self, place: str, targets: list[str], error: CannotKeep) -> None:
        log.info("haltline: session %s: no snapshot: %s", self.session, error)
        self.looked[place] = Looked(Kept(targets=[], lost=targets))

    def _is_own(self, root: str, name: str) -> bool:
        return self.own.has(os.path.join(root, name))


def _place_of(one: "Discard") -> tuple[str, str] | None:
    """Return the top of the work tree, and the path below it, empty for all of it; None: not in one, or not there.

    Raises CannotKeep for a work tree with its repository, or for a repository itself.
    """
    if one.is_whole:
        root = root_of(os.path.realpath(one.path))
        return None if root is None else (root, "")
    is_there = os.path.lexists(one.path)
    if not is_there and not (_GLOB.intersection(one.path) and any(glob.iglob(one.path, recursive=True))):
        return None
    folder, name = os.path.split(one.path.rstrip("/"))
    while _GLOB.intersection(folder) and not os.path.lexists(folder):
        folder, above = os.path.split(folder)
        name = f"{above}/{name}"
    path = os.path.realpath(one.path) if one.follows_links else os.path.join(os.path.realpath(folder), name)
    root = root_of(os.path.dirname(path) if is_there else os.path.realpath(folder))
    if os.path.lexists(os.path.join(path, ".git")):
        if one.is_by_git:  # it leaves the repository; another one in the work tree it leaves whole
            return (path, "") if root is None else None
        raise CannotKeep(f"{path}: expected files of a work tree, got a repository")
    if root is None:
        return None
    place = os.path.relpath(path, root).replace(os.sep, "/")
    if place.startswith(".git/") and not place.endswith("*"):  # such as a lock
        return None
    if _is_of_repository(place):
        raise CannotKeep(f"{path}: expected files of a work tree, got those of a repository as well")
    return root, place


def _is_of_repository(place: str) -> bool:
    """Return whether a path below the top of a work tree is the top, or also in its `.git`."""
    first, *_ = parts = place.split("/")
    if first.startswith(".") and (first in {".", ".."} or fnmatchcase(".git", first)):
        return True
    return "**" in parts and any(fnmatchcase(name, parts[-1]) for name in (".git", "HEAD", "index", "config"))


def _specs(placed: "Iterable[tuple[Discard, str]]") -> Specs:
    from haltline.interventions.agent.snapshots.discards import Work  # noqa: PLC0415 - as above

    paths: list[str] = []
    work, is_whole = Work(0), False
    for one, place in placed:
        work |= one.work
        is_whole |= not place
        if os.path.lexists(one.path):
            paths.append(f":(top,literal){place}")
        else:  # `*` also matches `/` here, so more may be kept than would be lost
            paths.append(f":(top){place.replace('**/', '*')}")
    return Specs(
        () if is_whole else tuple(paths),
        Work.CHANGES in work,
        Work.UNTRACKED in work,
        Work.IGNORED in work,
        Work.REMOVED in work,
        Work.STASHES in work,
    )


def _named(event: ActionEvent) -> str:
    """Return a call in words: the text that it runs, or its tool."""
    for name in ("command", "cmd", "script"):
        given = (event.args or {}).get(name)
        if given and isinstance(given, str | list):
            return given if isinstance(given, str) else " ".join(map(str, given))
    return event.action
