"""What a command line would destroy: the words for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Badness(IntEnum):
    """How much is lost when it happens once. Ordered: the worst of several is `max`."""

    SCRATCH = 0
    """Build output, caches, temporary files: what the next run makes again."""

    PLAIN = 1
    """Somebody's file, row or object: one of many."""

    SEVERE = 2
    """One act is a catastrophe: a file system, a database, production, backups, the main branch."""


class ActEffect(StrEnum):
    """What an act does that cannot be taken back by doing nothing more."""

    DESTROYS = "destroys"
    """Something is gone, or will be by a setting."""

    OVERWRITES = "overwrites"
    """What was there is another one now."""

    EXPOSES = "exposes"
    """Others may read, change or reach more than before."""

    SPENDS = "spends"
    """Money moves, or is bound."""

    SENDS = "sends"
    """Something leaves for people: mail, a release, a post."""

    HANDS_OVER = "hands_over"
    """Somebody else is to do it: an agent, a schedule, a job."""


LOSSES = frozenset((ActEffect.DESTROYS, ActEffect.OVERWRITES))
"""After these something is missing."""


@dataclass(frozen=True, slots=True)
class Destruction:
    """One thing that a command line would destroy, or one of the other effects that cannot be taken back."""

    verb: str
    """What is done to it, e.g. `rm`, `drop_table`, `git_push_force`, `kubectl_delete`."""

    target: str
    """What it is done to, as `kind=name`, e.g. `path=/a/b`, `table=fact_sales`, `branch=main`."""

    badness: Badness

    effect: ActEffect = ActEffect.DESTROYS

    reversible: bool = False
    """Another act of the same kind takes it back, such as a start after a stop."""


def lost(acts: tuple[Destruction, ...]) -> tuple[Destruction, ...]:
    """Those of some acts after which something is missing."""
    if not acts:
        return acts
    return acts if all(act.effect in LOSSES for act in acts) else tuple(act for act in acts if act.effect in LOSSES)


def as_row(act: Destruction) -> list[str]:
    """As plain JSON: verb, target, badness, and the effect where it is not the first."""
    row = [act.verb, act.target, act.badness.name]
    return row if act.effect is ActEffect.DESTROYS else [*row, act.effect.value]


def of_row(row: Sequence[str]) -> Destruction:
    """What `as_row` gave."""
    effect = ActEffect(row[3]) if len(row) > 3 else ActEffect.DESTROYS
    return Destruction(row[0], row[1], Badness[row[2]], effect)


OPENED = "open_for_writing"
"""The verb of a file that is opened to be written anew, and into which nothing is written: it is new, or emptied."""

BLANK = "write_nothing"
"""The verb of a file of code or text that a tool writes with nothing in it: it is new where it was never seen."""

MAX_COMMAND_CHARS = 256 * 1024
"""A command line, statement or program is read up to here; of what is longer, the rule `unread_execution` says so."""

MAX_FOUND = 256
"""At most this many destructions of one command line are told, the worst first to stay."""


def listed(text: str) -> tuple[str, ...]:
    """The words of a text in which they stand side by side, as in a table."""
    return tuple(text.split())
