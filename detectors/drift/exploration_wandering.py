"""The session looks at files, from folder to folder and back, and does nothing else.

Fires: `exploration_wandering` (medium), once per exploration, when the last `window` lookups of files without a change
    between them score more than `threshold`: `0.3 * min(folders / max_folders, 1) + 0.3 * backtracking + 0.2 * spread
    of depths + 0.2 * (1 - focus)`.
    Backtracking is the share of lookups that return to a folder that was left before, doubled, at most 1. The spread is
    the standard deviation of the depths, divided by `max_depth_spread`, at most 1. Focus is the share of lookups in the
    most frequent folder. `endless_looking`: medium, high and critical at the numbers in `endless` of lookups in a row,
    in any folder and by any read-only tool; the longest of normal sessions, those of subagents that only explore, have
    fewer than 50.
Quiet: after a change, a test run or any other program that does not look at files, as counting restarts; long reading
    in few folders, up to the first number in `endless`; fewer than `window` lookups.
Misses: exploration interrupted by idle commands; files that programs read on their own; a search through everything
    (`grep -r`) counts as one lookup of one folder.
"""

import re
from collections import Counter
from itertools import pairwise
from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.severity_counts import ManyCounts
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, Entry, entry, evidence
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Reading
from haltline.schemas.stored import Stored

# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_SHELL, _READ = Reading.SHELL, Effect.READ

_PLACE = 4
"""Position of the folder in an entry."""
_MAX_PLACE_CHARS = 160
_READ_CHARS = 1024
_LOOKS = re.compile(
    r"\s*(?:cd\s+[^\s;&|]+\s*(?:&&|;)\s*)?(?P<name>ls|tree|find|fd|du|cat|head|tail|less|more|nl|wc|stat|file|grep|egrep"
    r"|rg|ag|sed|awk)(?=\s|$)"
)
_LISTS = frozenset(("ls", "tree", "find", "fd", "du", "glob", "list_directory"))
_OPERAND = re.compile(r"(?<=\s)[^\s;&|<>'\"-][^\s;&|<>'\"]*")
_FILE = re.compile(
    r"(?<![\w'\"$=/])(?:~|\.{0,2})/?[\w.@+-]+(?:/[\w.@+*-]+)+/?|(?<=\s)\.{1,2}(?=\s|$)|(?<=\s)[\w-]+\.\w{1,5}(?=\s|$)"
)


class State(Stored):
    """The last lookups without a change between them."""

    looks: list[Entry] = field(default_factory=list)
    told: bool = False
    count: int = 0
    """Lookups in a row."""


@settings
class ExplorationWandering(Detector[State]):
    """A score of more than `threshold` over the last `window` lookups."""

    id: ClassVar[str] = "exploration_wandering"
    optional: ClassVar[bool] = True
    sees: ClassVar[Trait] = Trait.BEGUN | Trait.REFUSED

    threshold: Annotated[float, Field(gt=0, le=1), Stricter.LOWER] = 0.7
    """Score from 0 to 1; a higher one is wandering."""
    window: Annotated[int, Field(ge=4, le=200), Stricter.NEITHER] = 24
    """Lookups that are scored together."""
    max_folders: Annotated[int, Field(ge=1, le=1000), Stricter.LOWER] = 20
    """Folders. This many different folders, or more, have the full score."""
    endless: ManyCounts = (60, 120, 400)
    """Thresholds of medium, high and critical findings: lookups in a row, of any kind."""
    max_depth_spread: Annotated[float, Field(gt=0, le=100), Stricter.LOWER] = 2.0
    """Folder levels. A larger spread has the full score."""

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Count a lookup, or restart at any other action; a refused lookup is removed again."""
        place = _place(act)
        if act.refused:
            if act.call is not None and place is not None:
                state.count = max(0, state.count - 1)
                state.looks = [look for look in state.looks if look[EVENT_ID] != act.call.event_id]
            return None
        if place is None:
            if state.count:
                state.looks, state.told, state.count = [], False, 0
            return None
        state.count += 1
        if state.count in self.endless:
            seen, reason = state.count, f"{state.count} lookups in a row, with no other action in between"
            events = evidence(act, [*state.looks, entry(act)])
            return self.counted("endless_looking", seen, self.endless, reason, events, looks=seen)
        if not place:
            return None
        looks = state.looks
        looks.append(entry(act, place[:_MAX_PLACE_CHARS]))
        if len(looks) > self.window:
            del looks[: -self.window]
        if state.told or len(looks) < self.window:
            return None
        breadth, backtracking, spread, focus = parts = self._parts(state.looks)
        score = _score(parts)
        if score <= self.threshold:
            return None
        state.told = True
        folders = len({e[_PLACE] for e in state.looks})
        return self.finding(
            "exploration_wandering",
            Severity.MEDIUM,
            f"{len(state.looks)} lookups back and forth in {folders} folders, with no other action in between",
            evidence(act, state.looks),
            confidence=score,
            values={
                "score": round(score, 3),
                "folders": folders,
                "breadth": round(breadth, 3),
                "backtracking": round(backtracking, 3),
                "depth_spread": round(spread, 3),
                "focus": round(focus, 3),
            },
            thresholds=self.thresholds("threshold", "window", "max_folders"),
        )

    def near(self, state: State) -> float:
        """The score relative to `threshold`; with less than a window, in proportion to its length."""
        long = min(1.0, state.count / self.endless[0])
        if not state.looks:
            return long
        return min(1.0, max(long, _score(self._parts(state.looks)) / self.threshold * len(state.looks) / self.window))

    def _parts(self, looks: list[Entry]) -> tuple[float, float, float, float]:
        """Breadth, backtracking, spread of depths and focus, each from 0 to 1."""
        places = [str(e[_PLACE]) for e in looks]
        counts = Counter(places)
        left: set[str] = set()
        back = 0
        for before, after in pairwise(places):
            if before != after:
                left.add(before)
                back += after in left
        depths = [place.strip("/").count("/") + (place not in (".", "/")) for place in places]
        mean = sum(depths) / len(depths)
        spread = (sum((depth - mean) ** 2 for depth in depths) / len(depths)) ** 0.5
        return (
            min(1.0, len(counts) / self.max_folders),
            min(1.0, 2 * back / max(1, len(places) - 1)),
            min(1.0, spread / self.max_depth_spread),
            max(counts.values()) / len(places),
        )


def _score(parts: tuple[float, float, float, float]) -> float:
    breadth, backtracking, spread, focus = parts
    return round(0.3 * breadth + 0.3 * backtracking + 0.2 * spread + 0.2 * (1 - focus), 9)


def _place(act: Observation) -> str | None:
    """The folder of a lookup; empty: unknown; None: the action is not a lookup of files."""
    if act.runs:
        if act.tool.reading is not _SHELL or not act.text:
            return None
        found = _LOOKS.match(act.text)
        if found is None or act.changes:
            return None
        name = found["name"]
        word = (_OPERAND if name in _LISTS else _FILE).search(act.text, found.end(), _READ_CHARS)
        return _folder(word[0], name) if word else "."
    if act.tool.effect is not _READ or act.effect is not _READ:
        return None
    head = act.head
    return _folder(head[5:], act.action.lower()) if head.startswith("path=") else ""


def _folder(path: str, program: str) -> str:
    """The folder of a file; the path itself if it is listed or has no extension."""
    path = path.rstrip("/") or "/"
    name = path.rpartition("/")[2]
    if program in _LISTS or "." not in name.strip("."):
        return path
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
