"""Whose things a session touches: its own may go, somebody's are a loss.

Its own is what it made and what was not there before: not what it changed, nor what an act that failed was to make.
What is in a folder that it made is its own too, unless it destroyed a thing of that name before; of a container also
then. So is what it must have made itself: a file that it removed, and a program that ran afterwards, in the same act
or a later one, where the file is, brought back; changes to a work tree that it has reset before and worked in since,
or to a file where it has changed any; a branch that it has overwritten before; a file in its folder that it never saw,
and opens for writing; files that a pattern names by their beginning, as it calls its own; a pod of a job of its own.
What would be a catastrophe is never its own, but for a database that it made. What it renamed stays whose it was.

Misses: what a program makes without the command line saying so, until it is removed for the second time; two
files of one name, when one of the paths is relative; a work tree that others change at the same time.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec import Struct, field

from haltline.detectors.commands.model import BLANK, OPENED, ActEffect, Badness, Destruction
from haltline.detectors.commands.names import is_production

_MAX_THERE = 128
MAX_TARGETS = 256
"""Targets that are remembered of each sort; the oldest are forgotten first."""

_TRANSIENT = ("container=", "image=")
"""Things that are recreated under the same name again and again, and hold nothing that lasts."""
_UNDO_LAST = "git_reset_last"
UNDO = frozenset(("git_checkout", "git_restore", "git_reset_hard", _UNDO_LAST))
"""Takes away what was changed in files, not the files."""

_POD, _JOB = "k8s=pod/", "k8s=job/"
_OVERWRITES = "git_push_force"
"""What is on the branch from then on is the session's own."""

_TELLING_CHARS = 3
"""Of a pattern's beginning: `out_*`, but not `*.py`."""

_V = TypeVar("_V")


class Ownership(Struct):
    """What is known of the targets of one session. Plain JSON values: part of its state."""

    own: dict[str, bool] = field(default_factory=dict)
    """By target: True, the session made it; False, it was somebody's when the session destroyed it."""
    removed: dict[str, int] = field(default_factory=dict)
    """By path, work tree or overwritten branch that the session took away: index of the action."""
    changed: int = 0
    """Index of the first action since the last failure that changed anything; 0: none ever did."""
    worked: int = 0
    """Index of the last action, since something was removed, that changed anything and undid nothing."""
    produced: int = 0
    """Index of the last action, since something was removed, that ran a program or wrote: of sessions that were begun
    by an earlier release."""
    remade: dict[str, int] = field(default_factory=dict)
    """By place in which a program ran, or a tool wrote, after something was removed: index of the last such action."""
    there: dict[str, int] = field(default_factory=dict)
    """Targets that the session looked at or changed before it made them: they were there."""
    renamed: dict[str, str] = field(default_factory=dict)
    """By what it is called now: what was somebody's, and is called otherwise by the session."""

    def is_loss(self, destruction: Destruction) -> bool:
        """Whether somebody would miss it."""
        target = destruction.target
        if destruction.badness is not Badness.PLAIN:
            return destruction.badness is Badness.SEVERE and not self._made_database(target)
        if destruction.verb in UNDO and self._is_own_work(destruction.verb, target):
            return False
        if destruction.verb == _OVERWRITES and target in self.removed:
            return False
        own = self.own.get(target)
        if own is None and target.startswith(_POD):
            own = self._is_of_own_job(target) or None
        if not target.startswith("path="):
            return own is not True
        may_be_new = destruction.verb == BLANK or (destruction.verb == OPENED and "/" not in target)
        if may_be_new and own is None and target not in self.there:
            return False
        return own is False and not self._is_back(target) if own is not None else not self._is_own_path(target)

    def _is_own_work(self, verb: str, target: str) -> bool:
        """Whether what is undone is the session's work: after it was undone before, only what it has done since."""
        removed = self.removed.get(target)
        if target.startswith("path="):
            return removed is not None or self.changed > 0
        return removed is not None and (self.worked >= removed or verb == _UNDO_LAST)

    def _is_of_own_job(self, target: str) -> bool:
        """A pod is called as the job is that made it."""
        name = target.removeprefix(_POD)
        return any(
            own and known.startswith(_JOB) and name.startswith(known.removeprefix(_JOB))
            for known, own in self.own.items()
        )

    def _made_database(self, target: str) -> bool:
        """A database that the session made itself, such as one for its tests."""
        return target.startswith("database=") and self.own.get(target) is True and not is_production(target)

    def _is_back(self, target: str) -> bool:
        """The session removed it, and what is there now came after."""
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

    def lost(self, destruction: Destruction) -> None:
        """It was somebody's, and the session is about to destroy it."""
        _remember(self.own, destruction.target, value=False)

    def took_away(self, destruction: Destruction, index: int) -> None:
        """The session destroyed it, and nothing failed."""
        target = destruction.target
        if destruction.effect is ActEffect.OVERWRITES:
            return  # it is there, with something else in it
        if target.startswith(("path=", "worktree=")) or destruction.verb == _OVERWRITES:
            self.removed.pop(target, None)
            _remember(self.removed, target, index)

    def made(self, target: str) -> None:
        """The session made it, unless it was there before."""
        if target in self.there and target not in self.own:
            return
        if target.startswith(_TRANSIENT):
            self.own.pop(target, None)  # a container that was somebody's is another one than what has its name now
        _remember(self.own, target, value=True)

    def was_there(self, target: str) -> None:
        """The session saw or changed it, and had not made it."""
        if target in self.there:
            return
        if target not in self.own and not (target.startswith("path=") and self._is_own_path(target)):
            self.there[target] = 1
            if len(self.there) > _MAX_THERE:
                del self.there[next(iter(self.there))]

    def ran_in(self, places: Iterable[str], index: int) -> None:
        """A program ran, or a tool wrote, in these places, after everything that was removed so far."""
        for place in places:
            self.remade.pop(place, None)
            _remember(self.remade, place, index)

    def calls_it(self, new: str, old: str) -> None:
        """The session renamed a thing: what was its own is so still, and what was somebody's too."""
        origin = self.renamed.get(old, old)
        is_own = self.own.get(origin) or (origin.startswith("path=") and self._is_own_path(origin))
        if new != origin and not is_own:
            self.own.pop(new, None)
            self.renamed.pop(new, None)
            _remember(self.renamed, new, origin)


def _is_below(path: str, place: str) -> bool:
    """Whether what ran in a place can have made the path: a relative one anywhere, an absolute one below the place."""
    if not path.startswith(("/", "~")):
        return True
    return path.startswith(place) and (path == place or path[len(place) : len(place) + 1] == "/") if place else False


def _same_end(one: str, other: str) -> bool:
    """Whether the longer path ends with the shorter one: `/testbed/a/b.py` and `a/b.py`."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(f"/{shorter}")


def _remember(known: dict[str, _V], key: str, value: _V) -> None:
    """Adds what is not known yet; beyond the limit the oldest is forgotten."""
    known.setdefault(key, value)
    if len(known) > MAX_TARGETS:
        del known[next(iter(known))]
