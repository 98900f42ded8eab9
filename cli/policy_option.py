"""The policy that a command is given."""

from pathlib import Path
from typing import TYPE_CHECKING

from haltline.cli.common import Exit, fail

if TYPE_CHECKING:
    from haltline.detectors.framework.plugins import Plugins
    from haltline.schemas.policy import Policy


def read_plugins() -> "Plugins":
    """What other packages bring. Ends the command when two bring one name."""
    from haltline.streams.engine.plugins import installed

    try:
        return installed()
    except ValueError as error:
        fail(error, Exit.USAGE)


def read_policy(file: Path | None, *, option: str = "--policy: ") -> "Policy":
    """The policy of a file, or every default, checked with the detectors of other packages that are installed.

    Ends the command when it cannot be used; `option` is what named a file that cannot be read.
    """
    from haltline.streams.policy.loader import UnreadablePolicy, load_policy

    try:
        return load_policy({} if file is None else file)
    except UnreadablePolicy as error:
        fail(f"{option}{error}", Exit.USAGE)
    except ValueError as error:
        fail(error, Exit.USAGE)
