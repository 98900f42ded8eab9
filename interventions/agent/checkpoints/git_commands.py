"""Git commands, limited to one repository and index: in a bounded time, without hooks, helpers and the user's locks."""

import os
import subprocess
from collections.abc import Mapping
from typing import Final

IDENTITY: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "haltline"), ("EMAIL", "haltline@localhost"))
}


class GitFailed(Exception):
    """A git command failed, or took too long."""


def git(
    folder: str | os.PathLike[str],
    *args: str,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    none: int = 0,
) -> bytes:
    """Return the output of a git command in a folder.

    `none`: the exit code for "nothing found". Raises GitFailed, and OSError without git.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    clean |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **(env or {})}
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.safecrlf=false", "-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            [*command, *args],
            cwd=folder,
            env=clean,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=max(0.001, timeout_s),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {args[0]}: took longer than {timeout_s:.2g}s") from error
    if done.returncode not in (0, none):
        raise GitFailed(f"git {args[0]}: {done.stderr.decode(errors='replace').strip()[:500] or done.returncode}")
    return done.stdout
