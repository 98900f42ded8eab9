"""The readers of programs whose effects no row can say, by the name of the program.

Misses: nothing of its own; each reader says what it misses.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands import files
from haltline.detectors.commands.model import Destruction
from haltline.detectors.commands.programs import containers, databases, editors, forges, git, http, windows
from haltline.detectors.commands.shell.invocation import Invocation

Reader = Callable[[Invocation], Iterator[Destruction]]

READERS: Mapping[str, Reader] = {
    **files.TOOLS,
    **editors.TOOLS,
    **git.TOOLS,
    **databases.TOOLS,
    **http.TOOLS,
    **containers.TOOLS,
    **forges.TOOLS,
    **windows.TOOLS,
}


def reader(name: str) -> Reader | None:
    """Return the reader of a program; the case of Windows' commands does not matter."""
    return READERS.get(name) or windows.TOOLS.get(name.lower())
