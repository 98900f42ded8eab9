"""`haltline worker`, `audit`, `kafka`, `up`: the processes that do the work."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_GROUP,
    DEFAULT_PREFIX,
    NO_CLIENT_CONFIG,
    Bootstrap,
    ClientConfig,
    Exit,
    Group,
    PolicyFile,
    Prefix,
    fail,
)
from haltline.streams.local_kafka import DEFAULT_PARTITIONS, DEFAULT_PORT, LocalKafkaError, run_foreground
from haltline.streams.log_reader import open_consumer, partitions_of
from haltline.streams.policy_file import BadPolicy, load_policy
from haltline.streams.settings import WorkerSettings

DEFAULT_METRICS_PORT = 9464

MetricsPort = Annotated[
    int, typer.Option(help="Where /metrics, /healthz and /readyz are served; 0 takes a free port.", min=0, max=65535)
]
MetricsHost = Annotated[str, typer.Option(help="Address to serve them on; 0.0.0.0 for all.", metavar="ADDRESS")]


def worker(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    policy: PolicyFile = None,
    group: Group = DEFAULT_GROUP,
    instance_id: Annotated[
        str | None,
        typer.Option(help="Name within the group that outlives a restart: its partitions are taken up at once."),
    ] = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = DEFAULT_METRICS_PORT,
    checkpoint_interval: Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0.05)] = 1.0,
    standby_replicas: Annotated[
        int, typer.Option(help="How many other workers keep a warm copy of each partition's state.", min=0)
    ] = 0,
    session_timeout: Annotated[
        float, typer.Option(help="Seconds of silence after which a worker loses its partitions.", min=1)
    ] = 10.0,
    fetch_wait_ms: Annotated[
        int, typer.Option(help="How long the broker may hold a fetch; 10 for an embedded broker.", min=1)
    ] = 500,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
) -> None:
    """Run one worker until SIGTERM or Ctrl-C: events in, decisions out.

    Start more of them with the same group to share the partitions. Exit 0 after a clean stop.

    Example: haltline worker --bootstrap kafka-1:9092 --policy policy.yaml --instance-id worker-1
    """
    from haltline.streams.worker import run  # noqa: PLC0415  # Faust takes a second to load; other commands need none

    topics = Topics(prefix)
    settings = WorkerSettings(
        bootstrap=bootstrap,
        # An operator's command must not wait behind a backlog of events.
        sources=(topics.commands, topics.feedback, topics.actions),
        group=group,
        instance_id=instance_id,
        checkpoint_interval_s=checkpoint_interval,
        standby_replicas=standby_replicas,
        session_timeout_s=session_timeout,
        fetch_wait_ms=fetch_wait_ms,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        client=client_config,
    )
    checked = read_policy(policy)
    require_topics(bootstrap, [*topics.all, settings.changelog], client_config)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("haltline").setLevel(logging.INFO)
    raise typer.Exit(run(settings, topics, checked))


def kafka(
    data: Annotated[Path, typer.Option(help="Folder for Kafka's data.", metavar="DIR")] = Path(".kafka/data"),
    port: Annotated[int, typer.Option(help="Port of 127.0.0.1.", min=1, max=65535)] = DEFAULT_PORT,
    partitions: Annotated[int, typer.Option(help="Partitions of each topic.", min=1)] = DEFAULT_PARTITIONS,
) -> None:
    """Run a real Kafka on this machine with haltline's topics, until Ctrl-C. Needs Java; Maven the first time.

    Example: haltline kafka --data .kafka/data --port 9092
    """
    try:
        run_foreground(data, port, partitions)
    except LocalKafkaError as error:
        fail(error, Exit.NO)


def read_policy(file: Path | None) -> Policy:
    """The policy of a file, or every default; ends the command when it cannot be used."""
    if file is None:
        return Policy()
    try:
        return load_policy(file)
    except BadPolicy as error:
        fail(error, Exit.USAGE)
    except OSError as error:
        fail(f"--policy: {error}", Exit.USAGE)


def require_topics(bootstrap: str, names: list[str], client: ClientConfig) -> None:
    """Ends the command when the broker does not answer or a topic is missing."""
    consumer = open_consumer(bootstrap, client=client)
    try:
        for name in names:
            partitions_of(consumer, name)
    finally:
        consumer.close()


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(worker)
    app.command()(kafka)
