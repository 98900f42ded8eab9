"""The readers of programs whose effects no row can say, by the name of the program.

Misses: nothing of its own; each reader says what it misses.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands import files
from haltline.detectors.commands.model import Destruction
from haltline.detectors.commands.programs import databases, git, http
from haltline.detectors.commands.shell.invocation import Invocation

Reader = Callable[[Invocation], Iterator[Destruction]]

READERS: Mapping[str, Reader] = {
    **files.TOOLS,
    **git.TOOLS,
    **databases.TOOLS,
    **http.TOOLS,
}


def reader(name: str) -> Reader | None:
    """Return the reader of a program; its case does not matter."""
    return READERS.get(name) or READERS.get(name.lower())
