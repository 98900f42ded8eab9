"""Whose things a session touches: its own may go, somebody's are a loss.

Its own is what it made, and what is in a folder that it made, unless it destroyed a thing of that name before; of a
container also then. So is what it must have made itself: a file that it removed, and a program that it ran brought
back; changes to a work tree that it has changed or reset before; a branch that it has overwritten before. What would
be a catastrophe is never its own.

Misses: what a program makes without the command line saying so, until it is removed for the second time; two
files of one name, when one of the paths is relative; a work tree that others change at the same time.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from haltline.detectors.commands.model import Badness, Destruction

MAX_TARGETS = 256
"""Targets that are remembered of each sort; the oldest are forgotten first."""

_TRANSIENT = ("container=", "image=")
"""Things that are made anew under the same name again and again, and hold nothing that lasts."""
_UNDO = frozenset(("git_checkout", "git_restore", "git_reset_hard"))
"""Takes away what was changed in files, not the files."""

_OVERWRITES = "git_push_force"
"""What is on the branch from then on is the session's own."""

_V = TypeVar("_V")


@dataclass
class Belongings:
    """What is known of the targets of one session. Plain JSON values: part of its state."""

    own: dict[str, bool] = field(default_factory=dict)
    """By target: True, the session made it; False, it was somebody's when the session destroyed it."""
    removed: dict[str, int] = field(default_factory=dict)
    """By path, work tree or overwritten branch that the session took away: index of the action."""
    changed: int = 0
    """Index of the first action since the last failure that changed anything; 0: none ever did."""
    produced: int = 0
    """Index of the last action, since something was removed, that ran a program or wrote."""

    def is_loss(self, destruction: Destruction) -> bool:
        """Whether somebody would miss it."""
        if destruction.badness is not Badness.PLAIN:
            return destruction.badness is Badness.SEVERE
        target = destruction.target
        if destruction.verb in _UNDO and (target in self.removed or (self.changed and target.startswith("path="))):
            return False
        if destruction.verb == _OVERWRITES and target in self.removed:
            return False
        own = self.own.get(target)
        if not target.startswith("path="):
            return own is not True
        return own is False and not self._is_back(target) if own is not None else not self._is_own_path(target)

    def _is_back(self, target: str) -> bool:
        """The session removed it, and what is there now came after."""
        removed = self.removed.get(target)
        return removed is not None and self.produced >= removed

    def _is_own_path(self, target: str) -> bool:
        place = target
        while place:
            if self.own.get(place) or self._is_back(place):
                return True
            place = place.rpartition("/")[0]
        path = target.removeprefix("path=")
        absolute = path.startswith("/")
        return any(
            ours
            and other.startswith("path=")
            and absolute is not other.startswith("path=/")
            and _same_end(path, other[5:])
            for other, ours in self.own.items()
        )

    def lost(self, destruction: Destruction) -> None:
        """It was somebody's, and the session is about to destroy it."""
        _remember(self.own, destruction.target, value=False)

    def took_away(self, destruction: Destruction, index: int) -> None:
        """The session destroyed it, and nothing failed."""
        target = destruction.target
        if target.startswith(("path=", "worktree=")) or destruction.verb == _OVERWRITES:
            self.removed.pop(target, None)
            _remember(self.removed, target, index)

    def made(self, target: str) -> None:
        """The session made it."""
        if target.startswith(_TRANSIENT):
            self.own.pop(target, None)  # a container that was somebody's is another one than what has its name now
        _remember(self.own, target, value=True)


def _same_end(one: str, other: str) -> bool:
    """Whether the longer path ends with the shorter one: `/testbed/a/b.py` and `a/b.py`."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(f"/{shorter}")


def _remember(known: dict[str, _V], key: str, value: _V) -> None:
    """Adds what is not known yet; beyond the limit the oldest is forgotten."""
    known.setdefault(key, value)
    if len(known) > MAX_TARGETS:
        del known[next(iter(known))]
