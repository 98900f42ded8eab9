"""`haltline demo`: a runaway agent is stopped, in a minute."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from haltline.cli.common import Exit, UsageErrors, console, fail, say


def demo(
    *,
    keep: Annotated[
        Path | None, typer.Option(help="Leave the logs and the audit table in this new folder.", metavar="DIR")
    ] = None,
    pause: Annotated[float, typer.Option(help="Seconds between two attempts of the brittle agent.", min=0)] = 6.0,
) -> None:
    """Watch a runaway agent being stopped: broker, worker, audit and sample agents on this machine.

    Needs nothing else, takes less than a minute, and ends everything it started. Exit 0 only when every check passes.

    Example: haltline demo --keep .haltline/demo
    """
    from haltline.streams.demo.script import run
    from haltline.streams.private_files import make_folder

    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        fail(f"--keep: expected a folder that is new or empty, got {keep}", Exit.USAGE)
    if keep is not None:
        with UsageErrors(OSError):
            make_folder(keep)
    folder = keep or Path(tempfile.mkdtemp(prefix="haltline-demo-"))
    well = False
    try:
        well = run(console(), folder, pause_s=pause)
    finally:
        if keep is None and well:
            shutil.rmtree(folder)
        else:
            say(f"Logs and the audit table are in {folder}")
    if not well:
        raise typer.Exit(Exit.NO)
