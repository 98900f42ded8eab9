"""The application: every group of commands in the order of the help."""

import typer

from haltline.streams.cli import (
    approvals,
    backtest,
    batches,
    beside,
    canary,
    command,
    console,
    demo,
    doctor,
    hold,
    incident,
    incidents,
    labels,
    learn,
    notify,
    policy,
    replay,
    run,
    schemas,
    status,
    tail,
    topics,
    up,
)
from haltline.streams.cli.common import EXIT_CODES, Commands

app = typer.Typer(
    name="haltline",
    cls=Commands,
    help=f"Stops runaway AI agents while they run. Begin with: haltline demo\n\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,  # it edits files of the shell
    pretty_exceptions_enable=False,  # a traceback that is not expected is for a bug report: plain, whole
    context_settings={"help_option_names": ["-h", "--help"]},
)
_GROUPS = (
    demo,
    up,
    run,
    status,
    command,
    hold,
    approvals,
    batches,
    canary,
    console,
    notify,
    labels,
    tail,
    replay,
    incident,
    incidents,
    backtest,
    learn,
    policy,
    topics,
    schemas,
    doctor,
    beside,
)
for group in _GROUPS:
    group.register(app)
