"""`haltline worker`, `audit`, `kafka`: the main processes."""

import errno
import logging
import signal
import socket
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, audit_group, options_of
from haltline.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_GROUP,
    DEFAULT_PREFIX,
    KAFKA_PARTITIONS,
    KAFKA_PORT,
    NO_CLIENT_CONFIG,
    Bootstrap,
    ClientConfig,
    Exit,
    FetchWait,
    Group,
    MetricsHost,
    MetricsPort,
    PolicyFile,
    PolicyName,
    Prefix,
    RulesName,
    UsageErrors,
    fail,
    option_of,
)
from haltline.cli.operator.audit import export, labels, maintenance, query
from haltline.cli.policy_option import read_policy
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from haltline.detectors.framework.plugins import Plugins
    from haltline.streams.policy.source import PolicySource
    from haltline.streams.runtime.worker_settings import WorkerSettings

DEFAULT_METRICS_PORT = 9464


def worker(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    policy: PolicyFile = None,
    policy_name: PolicyName = "default",
    group: Group = DEFAULT_GROUP,
    rules: Annotated[
        RulesName,
        option_of(
            "workers.rules", help="Rules to run: all; or enforced here, and shadow in a second group NAME-shadow."
        ),
    ] = "all",
    instance_id: Annotated[
        str | None,
        typer.Option(help="Static name in the group: after a restart the worker gets its partitions back at once."),
    ] = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = DEFAULT_METRICS_PORT,
    checkpoint_interval: Annotated[
        float, typer.Option(help="Minimum seconds between checkpoints; up to 10 if they take long.", min=0.05)
    ] = 1.0,
    standby_replicas: Annotated[
        int, typer.Option(help="How many other workers keep a warm copy of each partition's state.", min=0)
    ] = 0,
    session_timeout: Annotated[
        float, typer.Option(help="Seconds without a heartbeat after which a worker loses its partitions.", min=1)
    ] = 10.0,
    fetch_wait_ms: FetchWait = 500,
    sealing_key: Annotated[
        Path | None,
        option_of("workers.sealing_key", more="See `audit keygen`; agents verify with HALTLINE_VERIFY_KEY."),
    ] = None,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
) -> None:
    """Run one worker until SIGTERM or Ctrl-C: it reads events and publishes decisions.

    Start more of them with the same group to share the partitions. Exit 0 after a clean stop. A policy file is read
    again when it changes and on SIGHUP; without one the published policy is followed (`haltline policy publish`).

    Example: haltline worker --bootstrap kafka-1:9092 --policy policy.yaml --instance-id worker-1
    """
    from haltline.streams.engine.groups import Runs
    from haltline.streams.kafka.topics_in_use import topics_in_use
    from haltline.streams.runtime.worker_settings import WorkerSettings
    from haltline.streams.worker import run

    read_policy(policy)  # before any connection is opened
    _require_key(sealing_key)
    _require_free(metrics_host, metrics_port)
    topics, runs = topics_in_use(bootstrap, prefix, client=client_config), Runs(rules)
    with UsageErrors(ValueError):
        settings = WorkerSettings(
            bootstrap=bootstrap,
            # An operator's command, and signals of other sessions, must not wait behind a backlog of events.
            sources=(topics.commands, topics.feedback, topics.signals, topics.actions),
            group=runs.group(group),
            runs=runs,
            control="" if runs is Runs.SHADOW else topics.control,
            instance_id=instance_id,
            checkpoint_interval_s=checkpoint_interval,
            standby_replicas=standby_replicas,
            session_timeout_s=session_timeout,
            fetch_wait_ms=fetch_wait_ms,
            metrics_host=metrics_host,
            metrics_port=metrics_port,
            client=client_config,
        )
    # Only the notifier needs notifications: a worker may lack the permission to read that topic.
    mine = [name for name in topics.all if name != topics.notifications]
    if runs is Runs.SHADOW:
        mine = [*topics.session_sources, topics.policies, topics.detections, topics.interventions]
    require_topics(bootstrap, [*mine, settings.changelog], client_config)
    log_to_stderr()
    raise typer.Exit(
        run(
            settings,
            topics,
            lambda plugins: _follow(policy, policy_name, settings, topics, plugins),
            sealing_key=sealing_key,
        )
    )


def _require_key(file: Path | None) -> None:
    if file is None:
        return
    from haltline.schemas.keys import load_private_key

    with UsageErrors(ValueError, OSError):
        load_private_key(file)


def _follow(
    file: Path | None, name: str, settings: "WorkerSettings", topics: Topics, plugins: "Plugins"
) -> "PolicySource":
    from haltline.streams.policy import source

    if file is None:
        return source.PolicyTopic(
            settings.bootstrap,
            topics.policies,
            name,
            plugins,
            settings.runs,
            client=settings.client,
            fetch_wait_ms=settings.fetch_wait_ms,
        )
    followed = source.PolicyFile(file, plugins, settings.runs)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: followed.look())
    return followed


def audit(
    ctx: typer.Context,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    sink: Annotated[str, typer.Option(help="Name of this sink in the table.")] = "audit",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Continue in a table that was filled from another cluster.")
    ] = False,
    group: Annotated[str, audit_group("--group")] = "",
    instance_id: Annotated[
        str | None, typer.Option(help="Static name in the group, the same after a restart and unique.")
    ] = None,
    flush: Annotated[float, typer.Option(help="Maximum seconds before a record is written.", min=0.1)] = 5.0,
    signing_key: Annotated[Path | None, option_of("audit.signing_key", more="See `audit keygen`.")] = None,
    sign_every: Annotated[
        int, typer.Option(help="Rows of a partition after which its hash chain is signed.", min=1)
    ] = 1000,
    redact: Annotated[
        str,
        typer.Option(
            help="Data to redact before storing: some of secrets, email, us_ssn, credit_card, phone_us; all; none.",
            metavar="KINDS",
        ),
    ] = "all",
    compact_after: Annotated[
        int,
        typer.Option(
            help="Number of small files of the table to merge at a time, in a separate process; 0: never.",
            min=0,
        ),
    ] = 200,
    vacuum_hours: Annotated[
        int, typer.Option(help="Hours after which unreferenced files are deleted then; 0: never.", min=0)
    ] = 168,
    fetch_wait_ms: FetchWait = 500,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = 9465,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
) -> None:
    """Keep every record of every topic in a Delta table, each exactly once, until SIGTERM or Ctrl-C.

    Start more of them with the same group, sink and table to share the work. Exit 0 after a clean stop.

    Example: haltline audit --bootstrap kafka-1:9092 --table /srv/haltline/audit
    """
    if ctx.invoked_subcommand is not None:
        return
    from haltline.streams.audit.redacting import KINDS
    from haltline.streams.audit.run import run_audit
    from haltline.streams.audit.settings import AuditSettings
    from haltline.streams.kafka.topics_in_use import topics_in_use

    with UsageErrors(ValueError):
        settings = AuditSettings(
            bootstrap=bootstrap,
            topics=Topics(prefix),
            table=table,
            storage_options=options_of(storage_option),
            sink=sink,
            adopt=adopt,
            group=group,
            instance_id=instance_id,
            flush_s=flush,
            signing_key=signing_key,
            sign_every=sign_every,
            compact_commits=compact_after,
            vacuum_hours=vacuum_hours or None,
            redact={"all": KINDS, "none": ()}.get(redact, [kind.strip() for kind in redact.split(",")]),
            fetch_wait_ms=fetch_wait_ms,
            client=client_config,
            metrics_host=metrics_host,
            metrics_port=metrics_port,
        )
    _require_free(metrics_host, metrics_port)
    topics_in_use(bootstrap, prefix, client=client_config)  # fails at once if no broker answers
    log_to_stderr()
    raise typer.Exit(run_audit(settings))


def kafka(
    data: Annotated[Path, typer.Option(help="Folder for Kafka's data.", metavar="DIR")] = Path(".kafka/data"),
    port: Annotated[int, typer.Option(help="Port of 127.0.0.1.", min=1, max=65535)] = KAFKA_PORT,
    partitions: Annotated[int, typer.Option(help="Partitions of each topic.", min=1)] = KAFKA_PARTITIONS,
) -> None:
    """Run a real Kafka on this machine with haltline's topics, until Ctrl-C. Needs Java; Maven the first time.

    Example: haltline kafka --data .kafka/data --port 9092
    """
    from haltline.streams.local.kafka import run_foreground

    run_foreground(data, port, partitions)


def log_to_stderr() -> None:
    """Log to standard error, with time and level."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("haltline").setLevel(logging.INFO)


def _require_free(host: str, port: int) -> None:
    """Exit if the port is in use; usually by another worker on the machine."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        got = "one in use" if error.errno == errno.EADDRINUSE else str(error)
        fail(f"--metrics-port: expected port {port} of {host} free, got {got}; 0 takes a free one", Exit.USAGE)


def require_topics(bootstrap: str, names: list[str], client: ClientConfig) -> None:
    """Exit if the broker does not answer or a topic is missing."""
    from haltline.streams.kafka.log_reader import open_consumer, partitions_of

    with closing(open_consumer(bootstrap, client=client)) as consumer:
        for name in names:
            partitions_of(consumer, name)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(worker)
    group = typer.Typer(invoke_without_command=True, no_args_is_help=False)
    group.callback()(audit)
    for commands in (query, labels, maintenance, export):  # in the help's order
        commands.register(group)
    app.add_typer(group, name="audit")
    app.command()(kafka)
