"""The types that describe destructive and other irreversible acts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Badness(IntEnum):
    """The damage of one occurrence. Ordered: `max` gives the worst of several."""

    SCRATCH = 0
    """Build output, caches, temporary files: recreated by the next run."""

    PLAIN = 1
    """One file, row or object among many."""

    SEVERE = 2
    """A catastrophe at once: a file system, a database, production, backups, the main branch."""


class ActEffect(StrEnum):
    """The kind of an irreversible effect."""

    DESTROYS = "destroys"
    """Something is deleted, or will be because of a setting."""

    OVERWRITES = "overwrites"
    """Existing content is replaced."""

    EXPOSES = "exposes"
    """More people may read, change or reach something."""

    SPENDS = "spends"
    """Money is transferred or committed."""

    SENDS = "sends"
    """Something is sent to people: mail, a release, a post."""

    HANDS_OVER = "hands_over"
    """Work is delegated to an agent, a schedule or a job."""


LOSSES = frozenset((ActEffect.DESTROYS, ActEffect.OVERWRITES))
"""The effects by which something is lost."""


@dataclass(frozen=True, slots=True)
class Destruction:
    """One target that a command line would destroy, or another irreversible act."""

    verb: str
    """The act, e.g. `rm`, `drop_table`, `git_push_force`, `kubectl_delete`."""

    target: str
    """The target as `kind=name`, e.g. `path=/a/b`, `table=fact_sales`, `branch=main`."""

    badness: Badness

    effect: ActEffect = ActEffect.DESTROYS

    reversible: bool = False
    """Another act of the same kind undoes it, such as a start after a stop."""

    guessed: bool = False
    """No row names it: it is inferred from an unknown tool's name, or from an argument's name."""

    where: str = ""
    """The host, context, profile, project or database that the program names (see `surroundings.where`)."""

    @property
    def placed(self) -> str:
        """The target with where it is."""
        return placed(self.target, self.where)


IN_PRODUCTION = "production"
"""`Destruction.where` of what a program does in production."""
_AT = " at "
STAYS = ("path=", "worktree=", "branch=", "remote=", "tag=", "history=", "stash=", "device=", "order=", "user=")
"""Targets that are the same wherever a program finds its services."""


MADE_AGAIN = "~"
"""Before a target that an act makes, or changes if it is there: the session made it only if it destroyed it before."""


def placed(target: str, where: str) -> str:
    """Return a target with where it is: a namespace of one cluster is not that of another."""
    return f"{target}{_AT}{where}" if where and not target.startswith(STAYS) else target


def is_in_production(target: str) -> bool:
    """Return whether a placed target is in production."""
    return target.endswith(f"{_AT}{IN_PRODUCTION}")


def unplaced(target: str) -> str:
    """Return a target without where it is."""
    return target.partition(_AT)[0]


def lost(acts: tuple[Destruction, ...]) -> tuple[Destruction, ...]:
    """Return the acts by which something is lost."""
    if not acts:
        return acts
    return acts if all(act.effect in LOSSES for act in acts) else tuple(act for act in acts if act.effect in LOSSES)


def as_row(act: Destruction) -> list[str]:
    """Return plain JSON: verb, target, badness, effect and where; without what is DESTROYS and unknown at the end."""
    row = [act.verb, act.target, act.badness.name]
    if act.where:
        return [*row, act.effect.value, act.where]
    return row if act.effect is ActEffect.DESTROYS else [*row, act.effect.value]


def of_row(row: Sequence[str]) -> Destruction:
    """Return the act of a row from `as_row`."""
    effect = ActEffect(row[3]) if len(row) > 3 else ActEffect.DESTROYS
    return Destruction(row[0], row[1], Badness[row[2]], effect, where=row[4] if len(row) > 4 else "")


OPENED = "open_for_writing"
"""The verb of a file that is opened for writing and stays empty: it is either created or emptied."""

BLANK = "write_nothing"
"""The verb of a tool that writes an empty file of code or text; the file counts as new if it was never seen."""

MAX_COMMAND_CHARS = 256 * 1024
"""The part of a command line, statement or program that is parsed. `unread_execution` reports longer ones."""

MAX_FOUND = 256
"""The maximum number of destructions reported for one command line; the worst are kept."""


_LAST_TEXTS, _SHORT_TEXTS, _SHORT_CHARS = 8, 2048, 256


def cached_by_text(function: Callable[Concatenate[str, _P], _T]) -> Callable[Concatenate[str, _P], _T]:
    """Cache a function of a text: its last texts, which several rules read in succession, and more short ones.

    Agents repeat short command lines: over a third of those in recordings.
    """
    of_last, of_short = lru_cache(maxsize=_LAST_TEXTS)(function), lru_cache(maxsize=_SHORT_TEXTS)(function)

    @wraps(function)
    def cached(text: str, /, *more: _P.args, **named: _P.kwargs) -> _T:
        known = of_short if len(text) <= _SHORT_CHARS else of_last
        return known(text, *more, **named)  # type: ignore[arg-type]  # hashable, or the call raises

    return cached


def holds_one(text: str, cues: tuple[str, ...]) -> bool:
    """Return whether a text contains one of these."""
    for cue in cues:  # noqa: SIM110 - for nearly every event: any() is a generator
        if cue in text:
            return True
    return False


def listed(text: str) -> tuple[str, ...]:
    """Return the words of a text, which are separated by blanks."""
    return tuple(text.split())
