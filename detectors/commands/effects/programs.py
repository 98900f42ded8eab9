"""Irreversible effects of programs, beyond those that the readers in `programs` find: the rows of `commands/rows`.

Misses: unlisted programs, unless an option shows the effect; the contents of their input files.
"""

from collections.abc import Iterator, Sequence

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.model import Destruction, listed
from haltline.detectors.commands.rows import rows_of
from haltline.detectors.commands.shell.invocation import Invocation

DOMAINS = listed("stacks files system git databases packages jobs cloud containers money any")
"""The files of rows of programs, in the order in which they are asked."""
TABLE = rows.table("\n".join(line for domain in DOMAINS for line in rows_of(domain)))


_NEEDS = TABLE.needs
_ALONE = frozenset(name for name, groups in _NEEDS.items() if frozenset() in groups) | TABLE.anywhere
_NEEDED_WORDS = {name: frozenset[bytes]().union(*groups) for name, groups in _NEEDS.items() if name not in _ALONE}
WORDS = frozenset((*_ALONE, *_NEEDS))
"""The words that select candidate rows: names of programs, and options of any program."""


def may_act(watched: frozenset[bytes], words: Sequence[bytes]) -> bool:
    """Return whether the words of a command line may match a row; no false negatives. `watched` are those in `WORDS`."""
    if not _ALONE.isdisjoint(watched):
        return True
    for name in watched:
        needed = _NEEDED_WORDS.get(name)
        if needed is not None and (present := needed.intersection(words)):
            for group in _NEEDS[name]:
                if group <= present:
                    return True
    return False


def acts(invocation: Invocation) -> Iterator[Destruction]:
    """Return the effects of a program by the table."""
    return rows.acts(TABLE, invocation)
