"""Irreversible effects of programs, beyond those that the readers in `programs` find: the rows of `commands/rows`.

Misses: unlisted programs, unless an option shows the effect; the contents of their input files.
"""

from collections.abc import Iterator

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.model import Destruction, listed
from haltline.detectors.commands.rows import rows_of
from haltline.detectors.commands.shell.invocation import Invocation

DOMAINS = listed("stacks files system git databases packages jobs cloud containers money any")
"""The files of rows of programs, in the order in which they are asked."""
TABLE = rows.table("\n".join(line for domain in DOMAINS for line in rows_of(domain)))


def acts(invocation: Invocation) -> Iterator[Destruction]:
    """Return the effects of a program by the table."""
    return rows.acts(TABLE, invocation)
