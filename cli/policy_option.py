"""The option that selects a policy."""

from pathlib import Path
from typing import TYPE_CHECKING

from haltline.cli.common import Exit, UsageErrors, fail

if TYPE_CHECKING:
    from haltline.detectors.framework.plugins import Plugins
    from haltline.schemas.policy import Policy


def read_plugins() -> "Plugins":
    """The plugins of other packages. Exits if two have the same name."""
    from haltline.streams.engine.plugins import installed

    with UsageErrors(ValueError):
        return installed()


def read_policy(file: Path | None, *, option: str = "--policy: ") -> "Policy":
    """The policy of a file, or every default, checked with the detectors of other packages that are installed.

    Exits if it is not valid; `option` is the prefix of the error for an unreadable file.
    """
    from haltline.streams.policy.loader import UnreadablePolicy, load_policy

    try:
        return load_policy({} if file is None else file)
    except UnreadablePolicy as error:
        fail(f"{option}{error}", Exit.USAGE)
    except ValueError as error:
        fail(error, Exit.USAGE)
