"""What a command line would destroy: the words for it."""

from dataclasses import dataclass
from enum import IntEnum


class Badness(IntEnum):
    """How much is lost when it happens once. Ordered: the worst of several is `max`."""

    SCRATCH = 0
    """Build output, caches, temporary files: what the next run makes again."""

    PLAIN = 1
    """Somebody's file, row or object: one of many."""

    SEVERE = 2
    """One act is a catastrophe: a file system, a database, production, backups, the main branch."""


@dataclass(frozen=True, slots=True)
class Destruction:
    """One thing that a command line would destroy."""

    verb: str
    """What is done to it, e.g. `rm`, `drop_table`, `git_push_force`, `kubectl_delete`."""

    target: str
    """What it is done to, as `kind=name`, e.g. `path=/a/b`, `table=fact_sales`, `branch=main`."""

    badness: Badness


OPENED = "open_for_writing"
"""The verb of a file that is opened to be written anew, and into which nothing is written: it is new, or emptied."""

MAX_COMMAND_CHARS = 256 * 1024
"""A command line, statement or program is read up to here; of what is longer, the rule `unread_execution` says so."""

MAX_FOUND = 256
"""At most this many destructions of one command line are told, the worst first to stay."""
