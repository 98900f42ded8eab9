"""`haltline notify`: notifies people of incidents."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    Exit,
    FetchWait,
    MetricsHost,
    MetricsPort,
    UsageErrors,
    fail,
    group_of,
    option_of,
    print_json,
    say,
    say_error,
)

if TYPE_CHECKING:
    from haltline.streams.notify.config import Config

notify = typer.Typer()

Document = Annotated[Path, typer.Argument(help="The document of channels and routes, YAML or TOML.", metavar="FILE")]


@notify.callback(invoke_without_command=True)
@with_cluster()
def serve(
    ctx: typer.Context,
    *,
    config: Annotated[Path | None, option_of("notify.config")] = None,
    at: Cluster,
    group: Annotated[
        str,
        typer.Option(
            help="The consumer group. Default: the prefix without its dot, with -notify appended.", metavar="NAME"
        ),
    ] = "",
    session_timeout: Annotated[
        float, typer.Option(help="Seconds without a heartbeat after which it loses its partitions.", min=1)
    ] = 10.0,
    fetch_wait_ms: FetchWait = 500,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = 9471,
) -> None:
    """Notify people of incidents, by webhook, chat, mail, PagerDuty or Alertmanager, until SIGTERM or Ctrl-C.

    Each change of an incident is sent once to each channel that a route leads to. Exit 0 after a clean stop.
    docs/notifications.md describes the document.

    Example: haltline notify --config notify.yaml --bootstrap kafka-1:9092
    """
    if ctx.invoked_subcommand is not None:
        return
    if config is None:
        fail("--config: expected a document of channels and routes, got none", Exit.USAGE)
    document = _read(config)
    from haltline.cli.services.run import log_to_stderr
    from haltline.streams.notify.config import NotifierSettings
    from haltline.streams.notify.notifier import Notifier
    from haltline.streams.runtime.metrics import Metrics
    from haltline.streams.runtime.service import run_service

    settings = NotifierSettings(
        bootstrap=at.bootstrap,
        topics=at.topics,
        group=group or f"{group_of(at.prefix)}-notify",
        client=at.client_config,
        session_timeout_s=session_timeout,
        fetch_wait_ms=fetch_wait_ms,
    )
    log_to_stderr()
    with UsageErrors(OSError, ValueError):
        metrics = Metrics("notify")
        notifier = Notifier(settings, document, metrics)
        code = run_service(notifier, "notify", metrics, (metrics_host, metrics_port), at.bootstrap)
    raise typer.Exit(code)


@notify.command()
def check(file: Document, *, as_json: AsJson = False) -> None:
    """Check a document and the files of secrets that it names, without sending anything. Exit 2 when it is wrong.

    Example: haltline notify check notify.yaml
    """
    config = _read(file)
    from haltline.streams.notify.channels import sender_of
    from haltline.streams.notify.links import links_of

    try:
        links_of(config)
        for name, channel in config.channels.items():
            sender_of(name, channel).close()
    except ValueError as error:
        fail(f"{file}: {error}", Exit.USAGE)
    unused = sorted(set(config.channels) - {name for route in config.routes for name in route.channels})
    if as_json:
        print_json({"channels": list(config.channels), "routes": [one.name for one in config.routes], "unused": unused})
    else:
        say(f"{file}: {len(config.channels)} channels and {len(config.routes)} routes can be used")
    for name in unused:
        say_error(f"{file}: channels.{name}: no route uses it")


@notify.command("test")
def send_test(
    file: Annotated[Path, option_of("notify.config", "--config")],
    *,
    route: Annotated[str, typer.Option(help="The route whose channels receive it.", metavar="NAME")],
    channel: Annotated[str | None, typer.Option(help="Only to this channel of the route.", metavar="NAME")] = None,
    as_json: AsJson = False,
) -> None:
    """Send one test message now. Exit 1 when a receiver does not accept it.

    Example: haltline notify test --config notify.yaml --route night
    """
    config = _read(file)
    from haltline.streams.notify.channels import sender_of
    from haltline.streams.notify.channels.base import Failed
    from haltline.streams.notify.links import links_of
    from haltline.streams.notify.sample import samples

    chosen = next((one for one in config.routes if one.name == route), None)
    if chosen is None:
        names = ", ".join(one.name for one in config.routes)
        fail(f"--route: expected one of {names}, got {route!r}", Exit.USAGE)
    if channel is not None and channel not in chosen.channels:
        fail(f"--channel: expected one of {', '.join(chosen.channels)}, got {channel!r}", Exit.USAGE)
    refusals: dict[str, str | None] = {}
    for name in chosen.channels if channel is None else (channel,):
        try:
            sender = sender_of(name, config.channels[name])
            links = links_of(config)
        except ValueError as error:
            fail(f"{file}: {error}", Exit.USAGE)
        try:
            for message in samples(config, chosen, name, links, time.time_ns() // 1_000_000):
                sender.send(message)
        except Failed as refused:
            say_error(f"haltline: channel {name}: {refused.detail}")
            refusals[name] = refused.detail
        else:
            refusals[name] = None
            if not as_json:
                say(f"channel {name}: accepted")
        finally:
            sender.close()
    if as_json:
        print_json([{"channel": name, "accepted": why is None, "error": why} for name, why in refusals.items()])
    raise typer.Exit(Exit.NO if any(refusals.values()) else Exit.OK)


def _read(file: Path) -> "Config":
    from haltline.streams.notify import channels, notifier  # noqa: F401  # what they need is the extra
    from haltline.streams.notify.config import BadConfig, load_config

    with UsageErrors(BadConfig, OSError):
        return load_config(file)
