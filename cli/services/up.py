"""`haltline up`: a whole system on one machine."""

from pathlib import Path
from typing import Annotated

import typer

from haltline.cli.base_commands import missing_packages, needs
from haltline.cli.common import (
    KAFKA_PARTITIONS,
    KAFKA_PORT,
    NO_CLIENT_CONFIG,
    ClientConfig,
    Exit,
    MetricsPort,
    PolicyFile,
    RulesName,
    fail,
    option_of,
)
from haltline.cli.policy_option import read_policy
from haltline.cli.services.run import DEFAULT_METRICS_PORT


def up(
    ctx: typer.Context,
    *,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="A real Kafka, whose data stays; needs Java, and Maven the first time.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of 127.0.0.1 for --kafka.", min=1, max=65535)] = KAFKA_PORT,
    partitions: Annotated[int, typer.Option(help="Partitions of each topic (--kafka).", min=1)] = KAFKA_PARTITIONS,
    policy: PolicyFile = None,
    data: Annotated[Path, typer.Option(help="Folder for tables, logs and Kafka's data.", metavar="DIR")] = Path(
        ".haltline"
    ),
    metrics_port: MetricsPort = DEFAULT_METRICS_PORT,
    console_port: Annotated[int, option_of("console.port")] = 8460,
    rules: Annotated[
        RulesName,
        option_of(
            "workers.rules",
            help="enforced: rules in shadow run in a separate process; all: one worker runs all.",
        ),
    ] = "enforced",
    client_config: ClientConfig = NO_CLIENT_CONFIG,
) -> None:
    """Run a broker, workers, an audit sink and a console on this machine, until Ctrl-C.

    Without --kafka the broker is in this process, and its records end with it; if haltline.toml names a broker
    (kafka.bootstrap), that one is used. When one process dies, all end. The sink's metrics are on the port after the
    worker's, those of the rules in shadow on a free one. Other commands in this folder find the broker and the table
    without options, by the file up.toml in the data folder.

    A data folder belongs to one run. A second run there prints where the first one is; it needs another --data. For
    default ports in use, free ones are taken and printed.

    Example: haltline up --kafka --policy policy.yaml
    """
    if rules == "shadow":
        fail("--rules: expected enforced or all, got shadow", Exit.USAGE)
    if missing := missing_packages():  # here, not in a child's log
        fail(needs(missing[0], "up"), Exit.USAGE)
    read_policy(policy)  # as above
    from haltline.cli.services.local_system import run_system
    from haltline.streams.engine.groups import Runs

    run_system(
        kafka_port=port if kafka else None,
        partitions=partitions,
        policy=policy,
        data=data,
        metrics_port=metrics_port,
        console_port=console_port,
        rules=Runs(rules),
        client=client_config,
        given={name for name in ctx.params if (one := ctx.get_parameter_source(name)) and one.name != "DEFAULT"},
    )
