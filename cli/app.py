"""The application: every group of commands in the order of the help."""

import typer

from haltline.cli import agent_commands, schemas
from haltline.cli.common import EXIT_CODES, Commands
from haltline.cli.operator import (
    approvals,
    backtest,
    batches,
    canary,
    config,
    doctor,
    freeze,
    incident_bundle,
    incidents,
    init,
    kill_and_reset,
    labels,
    learn,
    policy,
    replay,
    status,
    tail,
    topics,
)
from haltline.cli.services import console, demo, notify, run, up

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
    init,
    up,
    run,
    status,
    kill_and_reset,
    freeze,
    approvals,
    batches,
    canary,
    console,
    notify,
    labels,
    tail,
    replay,
    incident_bundle,
    incidents,
    backtest,
    learn,
    policy,
    topics,
    schemas,
    doctor,
    config,
    agent_commands,
)
for group in _GROUPS:
    group.register(app)
