"""Ownership of the things that a session touches: it may destroy its own, while destroying those of others is a loss.

Its own is what it created and what did not exist before. This excludes what it only changed, and what a failed act was
to create. The content of a folder that it created is also its own, unless it destroyed a thing of that name before; for
containers also then, with what a program does inside of them. It also owns what it must have created itself:
- a file that it removed, and that a program running where the file is recreated, in the same act or a later one;
- changes to a work tree that it has reset before and worked in since, or to a file that it, or one of its programs, may
  have changed;
- a branch that it has overwritten before;
- a file in its folder that it never saw, and opens for writing;
- files that match a pattern whose beginning also names its own files;
- a pod of its own job.
What is not on this computer is its own only where it made it, by what the program names (`--context`, a host, a
profile), and never in production. A thing whose loss would be a catastrophe is never its own, except a database that it
created. A renamed thing keeps its owner.

Misses: files that a program creates without the command line naming them, until they are removed for the second time;
    two files with one name, if one of the paths is relative; a work tree that others change at the same time.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec import field

from haltline.detectors.commands.model import (
    BLANK,
    LOSSES,
    MADE_AGAIN,
    OPENED,
    ActEffect,
    Badness,
    Destruction,
    holds_one,
    is_in_production,
    placed,
    unplaced,
)
from haltline.detectors.commands.names import is_production, is_work_branch
from haltline.detectors.commands.paths import badness as path_badness
from haltline.detectors.commands.rows import words_of
from haltline.detectors.features.call_changes import own_name
from haltline.schemas import expressions as re
from haltline.schemas.stored import Stored

_MAX_THERE = 128
MAX_TARGETS = 256
"""Maximum number of stored targets of each kind; the oldest are dropped first."""

_UNDO_LAST = "git_reset_last"
UNDO = frozenset(("git_checkout", "git_restore", "git_reset_hard", "git_read_tree", _UNDO_LAST))
"""These discard changes in files, but not the files."""
_CLEANS = "git_clean"
_FORCED_AWAY = "git_worktree_remove"
"""Without force, git removes no work tree with work that it has no copy of."""
_DISCARDS = UNDO | {_CLEANS, "git_switch"}

_PROCESS = "process="
_RUNTIMES = {
    "node": ("node ", "npm ", "npx ", "yarn ", "pnpm "),
    "python": ("python", "flask ", "uvicorn "),
    **{name: (f"{name} ",) for name in ("java", "ruby", "php", "bun", "deno")},
}
_POD, _JOB = "k8s=pod/", "k8s=job/"
_RESETS = words_of("acts that make again what they destroy")
"""These create again what they destroy: what is there after the session worked with it is its own."""
_OVERWRITES = "git_push_force"
"""After this, the content of the branch is the session's own."""

_NEVER_OWN = ("path=", "worktree=", "branch=main", "branch=master", "device=", "remote=", "history=", "url=")
"""What is a catastrophe even if the session has created it."""

_LAST_OF_ADDRESS = re.compile("[/:]")
_TELLING_CHARS = 3
"""Minimum length of a pattern's beginning: `out_*`, but not `*.py`."""

_V = TypeVar("_V")


class Ownership(Stored):
    """The ownership of one session's targets. Plain JSON values: part of its state."""

    own: dict[str, bool] = field(default_factory=dict)
    """By target, with where it is: True, the session created it; False, it belonged to others when the session
    destroyed it."""
    removed: dict[str, int] = field(default_factory=dict)
    """By path, work tree or overwritten branch that the session removed: index of the action."""
    changed: int = 0
    """Index of the first action since the last failure by which a program may have changed existing files; 0: none."""
    edited: dict[str, int] = field(default_factory=dict)
    """Files that the session changed by a tool."""
    wrote: bool = False
    """The session ran, or may have, anything that may change files: what git lists from now on may be its own work."""
    uncommitted: list[str] = field(default_factory=list)
    """Files with uncommitted changes of others, which git listed before the session wrote anything."""
    untracked: list[str] = field(default_factory=list)
    """Files and directories of others outside of git, which it listed before the session wrote anything."""
    worked: int = 0
    """Index of the last action, since something was removed, that changed anything and undid nothing."""
    produced: int = 0
    """Index of the last action, since something was removed, that ran a program or wrote; only for sessions that
    started under an earlier release."""
    remade: dict[str, int] = field(default_factory=dict)
    """By folder in which a program ran, or a tool wrote, after something was removed: index of the last such action."""
    there: dict[str, int] = field(default_factory=dict)
    """Targets that the session read or changed before it created them: they existed before."""
    ran: list[str] = field(default_factory=list)
    """Runtimes, such as `node`, that the session started: those that run may be its own."""
    renamed: dict[str, str] = field(default_factory=dict)
    """By new name: the original name of a thing of others that the session renamed."""

    def is_loss(self, destruction: Destruction) -> bool:
        """Return whether the destruction is a loss to others."""
        target = destruction.target
        if destruction.badness is not Badness.PLAIN:
            return destruction.badness is Badness.SEVERE and not self._made_elsewhere(destruction)
        if destruction.verb in UNDO and self._is_own_work(destruction.verb, target):
            return False
        if destruction.verb == _OVERWRITES and target in self.removed:
            return False
        if destruction.verb in _RESETS and self._worked_since(destruction.placed):
            return False
        own = self.own.get(destruction.placed)
        if own is None and target.startswith(_POD):
            own = self._is_of_own_job(destruction) or None
        if not target.startswith("path="):
            return own is not True and (own is False or not self._made_elsewhere(destruction))
        may_be_new = destruction.verb == BLANK or (destruction.verb == OPENED and "/" not in target)
        if may_be_new and own is None and target not in self.there:
            return False
        return own is False and not self._is_back(target) if own is not None else not self._is_own_path(target)

    def _is_own_work(self, verb: str, target: str) -> bool:
        """Return whether the undone work is the session's own: after an earlier undo, only what it has done since."""
        removed = self.removed.get(target)
        if target.startswith("path="):
            return removed is not None or self.changed > 0 or self._edited(target)
        return removed is not None and (self.worked >= removed or verb == _UNDO_LAST)

    def _worked_since(self, target: str) -> bool:
        """Return whether the session removed it, and then ran a program or changed something."""
        removed = self.removed.get(target)
        return removed is not None and max(self.worked, *self.remade.values(), 0) > removed

    def _edited(self, target: str) -> bool:
        return target in self.edited or any(_same_end(target[5:], other[5:]) for other in self.edited)

    def edit(self, target: str) -> None:
        """Record that the session changed a file by a tool."""
        self.edited.pop(target, None)
        _remember(self.edited, target, 1)

    def _is_of_own_job(self, destruction: Destruction) -> bool:
        """Return whether a pod's name begins with that of a job of the session."""
        name = destruction.target.removeprefix(_POD)
        return any(
            own
            and known.startswith(_JOB)
            and name.startswith((job := unplaced(known)).removeprefix(_JOB))
            and known == placed(job, destruction.where)
            for known, own in self.own.items()
        )

    def _made_elsewhere(self, destruction: Destruction) -> bool:
        """Return whether the session created something that is no file, or what holds it."""
        target = destruction.target
        if target.startswith(_NEVER_OWN) or is_production(target) or destruction.effect not in LOSSES:
            return False
        if target.startswith(_PROCESS):
            return target.removeprefix(_PROCESS).rstrip("3") in self.ran
        named = own_name(destruction.verb, target)
        there = (target, named, *_holders(target))
        inside = (one for place in destruction.where.split() for one in _around(place))
        return any(self.own.get(one) is True for one in (*(placed(one, destruction.where) for one in there), *inside))

    def _is_back(self, target: str) -> bool:
        """Return whether the session removed it, and something recreated it afterwards."""
        removed = self.removed.get(target)
        if removed is None:
            return False
        if self.produced >= removed:
            return True
        return any(index >= removed and _is_below(target[5:], place) for place, index in self.remade.items())

    def _is_own_path(self, target: str) -> bool:
        place = target
        while place:
            if self.own.get(place) or self._is_back(place):
                return True
            place = place.rpartition("/")[0]
        path = target.removeprefix("path=")
        if "*" in path:
            return self._is_own_pattern(path)
        absolute = path.startswith("/")
        return any(
            ours
            and other.startswith("path=")
            and absolute is not other.startswith("path=/")
            and _same_end(path, other[5:])
            for other, ours in self.own.items()
        )

    def _is_own_pattern(self, pattern: str) -> bool:
        if len(pattern.rpartition("/")[2].partition("*")[0]) < _TELLING_CHARS:
            return False
        ours = any(own and fnmatchcase(known, f"path={pattern}") for known, own in self.own.items())
        return ours and not any(fnmatchcase(known, f"path={pattern}") for known in self.there)

    def losses(self, acts: Iterable[Destruction], without_copy: Collection[str] = ()) -> tuple[Destruction, ...]:
        """Return the acts that are losses to others; SEVERE if they discard work of others that nothing has a copy of.

        `without_copy`: targets with uncommitted work that is known to be lost.
        """
        found: list[Destruction] = []
        for act in acts:
            lost = act.target in without_copy and act.effect in LOSSES
            discards = act.verb in _DISCARDS
            of_others = discards and bool(self._discarded(act))
            if self.is_loss(act) or of_others or (discards and lost):
                severe = lost or of_others or act.verb == _FORCED_AWAY
                found.append(replace(act, badness=Badness.SEVERE) if severe else act)
        return tuple(found)

    def _discarded(self, destruction: Destruction) -> list[str]:
        if not (self.uncommitted or self.untracked):
            return []
        kind, _, place = destruction.target.partition("=")
        files = self.untracked if destruction.verb == _CLEANS else self.uncommitted
        if kind == "worktree":
            return files
        return [path for path in files if path == place or path.startswith(f"{place}/") or _same_end(place, path)]

    def note_uncommitted(self, changed: Iterable[str], new: Iterable[str]) -> None:
        """Record the files that git lists as changed, and as new to it.

        Those that the session cannot have written are of others.
        """
        self.uncommitted = self._of_others(self.uncommitted, frozenset(changed))
        self.untracked = self._of_others(self.untracked, frozenset(new))

    def _of_others(self, known: list[str], listed: frozenset[str]) -> list[str]:
        if self.wrote:
            return [path for path in known if path in listed]
        others = (path for path in sorted(listed) if path_badness(path, everything=False) is not Badness.SCRATCH)
        return [path for path in others if not self._is_own_path(f"path={path}")][:MAX_TARGETS]

    def lost(self, destruction: Destruction) -> None:
        """Record that the session is about to destroy a thing of others."""
        _remember(self.own, destruction.placed, value=False)

    def took_away(self, destruction: Destruction, index: int) -> None:
        """Record that the session destroyed it without a failure."""
        if destruction.verb in _DISCARDS:
            gone = self._discarded(destruction)
            if destruction.verb == _CLEANS:
                self.untracked = [path for path in self.untracked if path not in gone]
            else:
                self.uncommitted = [path for path in self.uncommitted if path not in gone]
        if destruction.effect is ActEffect.OVERWRITES:
            return  # it still exists, with other content
        self.removed.pop(destruction.placed, None)
        _remember(self.removed, destruction.placed, index)

    def made(self, target: str) -> None:
        """Record that the session created it, unless it existed before.

        What it destroyed, and made again, is its own from then on.
        """
        if target.startswith(MADE_AGAIN):
            target = target.removeprefix(MADE_AGAIN)
            if target not in self.removed:
                return
        if is_in_production(target) or (unplaced(target) in self.there and target not in self.own):
            return
        if not target.startswith("path="):
            self.own.pop(target, None)  # what others had under this name is not what has it now
        self.renamed.pop(target, None)
        _remember(self.own, target, value=True)

    def was_there(self, target: str) -> None:
        """Record that the session saw or changed something that it had not created."""
        if target in self.there:
            return
        if target not in self.own and not (target.startswith("path=") and self._is_own_path(target)):
            self.there[target] = 1
            if len(self.there) > _MAX_THERE:
                del self.there[next(iter(self.there))]

    def starts(self, text: str) -> None:
        """Record the runtimes that a command line may start."""
        for name, cues in _RUNTIMES.items():
            if name not in self.ran and holds_one(text, cues):
                self.ran.append(name)

    def ran_in(self, places: Iterable[str], index: int) -> None:
        """Record that a program ran, or a tool wrote, in these folders, after everything that was removed so far."""
        for place in places:
            self.remade.pop(place, None)
            _remember(self.remade, place, index)

    def calls_it(self, new: str, old: str) -> None:
        """Record that the session renamed a thing, which keeps its owner."""
        origin = self.renamed.get(old, old)
        is_own = self.own.get(origin) or (origin.startswith("path=") and self._is_own_path(origin))
        if is_own:
            self.renamed.pop(new, None)
        if new != origin and not is_own:
            self.own.pop(new, None)
            self.renamed.pop(new, None)
            _remember(self.renamed, new, origin)


def is_branch_of_work(loss: Destruction) -> bool:
    """Return whether a branch is named like those of one task (`fix/x`, `ada/wip`)."""
    kind, _, name = loss.target.partition("=")
    return kind in ("branch", "git") and loss.badness is not Badness.SEVERE and is_work_branch(name)


def _holders(target: str) -> tuple[str, ...]:
    """Return what holds a thing, or its name in an address: the bucket of an object, the namespace of a resource."""
    if target.startswith("object="):
        return (f"bucket={target.partition('://')[2].partition('/')[0]}",)
    if target.startswith("aws="):
        service, _, name = target.partition("/")
        return (f"{service}/{_LAST_OF_ADDRESS.split(name)[-1]}",)
    if target.startswith("k8s="):
        namespace = target.rpartition("@")[2]
        return (f"k8s=namespace/{namespace}",) if "@" in target else ()
    return ()


def _around(place: str) -> Iterator[str]:
    """Yield what an act may be inside of, by one word of where it is: a branch, a container, a pod, a namespace."""
    name, space, context = (*place.split("@"), "", "")[:3]
    in_space = f"{name}@{space}" if space else name
    pod = in_space if "/" in name else f"pod/{in_space}"
    yield f"branch={place}"
    for around in (
        f"inside={in_space}",
        f"k8s={pod}",
        *((f"k8s=namespace/{space}", f"volume={space}/*") * bool(space)),
    ):
        yield placed(around, context)


def _is_below(path: str, place: str) -> bool:
    """Return whether a program in a folder can have created the path: any relative one, an absolute one below it."""
    if not path.startswith(("/", "~")):
        return True
    return path.startswith(place) and (path == place or path[len(place) : len(place) + 1] == "/") if place else False


def _same_end(one: str, other: str) -> bool:
    """Return whether the longer path ends with the shorter one: `/testbed/a/b.py` and `a/b.py`."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(f"/{shorter}")


def _remember(known: dict[str, _V], key: str, value: _V) -> None:
    """Add a key if it is new; beyond the limit the oldest is dropped."""
    known.setdefault(key, value)
    if len(known) > MAX_TARGETS:
        del known[next(iter(known))]
