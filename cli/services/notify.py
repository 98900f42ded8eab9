"""`haltline notify`: notifies people of incidents, and calls actuators at kills."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from collections.abc import Mapping

    from haltline.streams.notify.channels import Receiver
    from haltline.streams.notify.config import Config

notify = typer.Typer()

Document = Annotated[Path, typer.Argument(help="The document of channels, YAML or TOML.", metavar="FILE")]


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
    """Notify people of incidents, by webhook, Alertmanager or apprise, until SIGTERM or Ctrl-C.

    Each channel is notified when an incident first asks a person, of a kill, and when it is over without one. At a kill
    the document's actuators are called. Exit 0 after a clean stop. docs/notifications.md describes the document.

    Example: haltline notify --config notify.yaml --bootstrap kafka-1:9092
    """
    if ctx.invoked_subcommand is not None:
        return
    if config is None:
        fail("--config: expected a document of channels, got none", Exit.USAGE)
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
    if document.gone:
        say_error(f"haltline: {document.gone}")
    with UsageErrors(OSError, ValueError):
        metrics = Metrics("notify")
        notifier = Notifier(settings, document, metrics)
        code = run_service(notifier, "notify", metrics, (metrics_host, metrics_port), at.bootstrap)
    raise typer.Exit(code)


@notify.command()
def check(file: Document, *, as_json: AsJson = False) -> None:
    """Check a document and the files of secrets that it names, without sending anything.

    Exit 2 when it is wrong, 1 when a part of it has no effect.

    Example: haltline notify check notify.yaml
    """
    config = _read(file)
    receivers = _receivers(file, config)
    for receiver in receivers.values():
        receiver.sender.close()
    if as_json:
        channels = [name for name in receivers if name not in config.actuators]
        print_json({"channels": channels, "actuators": list(config.actuators), "gone": config.gone or None})
    else:
        say(f"{file}: {len(receivers)} channels and actuators can be used")
    if config.gone:
        say_error(config.gone)
        raise typer.Exit(Exit.NO)


@notify.command("test")
def send_test(
    file: Annotated[Path, option_of("notify.config", "--config")],
    *,
    channel: Annotated[str | None, typer.Option(help="Only to this channel.", metavar="NAME")] = None,
    as_json: AsJson = False,
) -> None:
    """Send one test message and its end now. Exit 1 when a receiver does not accept it.

    Example: haltline notify test --config notify.yaml
    """
    config = _read(file)
    from haltline.streams.notify.channels.base import Failed
    from haltline.streams.notify.links import links_of
    from haltline.streams.notify.sample import samples

    receivers = {name: one for name, one in _receivers(file, config).items() if name not in config.actuators}
    if channel is not None and channel not in receivers:
        fail(f"--channel: expected one of {', '.join(receivers)}, got {channel!r}", Exit.USAGE)
    refusals: dict[str, str | None] = {}
    for name, receiver in receivers.items():
        if channel not in (None, name):
            continue
        try:
            for message in samples(name, links_of(config), time.time_ns() // 1_000_000):
                receiver.sender.send(message)
        except Failed as refused:
            say_error(f"haltline: channel {name}: {refused.detail}")
            refusals[name] = refused.detail
        else:
            refusals[name] = None
            if not as_json:
                say(f"channel {name}: accepted")
        finally:
            receiver.sender.close()
    if as_json:
        print_json([{"channel": name, "accepted": why is None, "error": why} for name, why in refusals.items()])
    raise typer.Exit(Exit.NO if any(refusals.values()) else Exit.OK)


@notify.command("dry-run")
def dry_run(
    session_id: Annotated[str, typer.Argument(help="The session that would be killed.", metavar="SESSION")],
    file: Annotated[Path, option_of("notify.config", "--config")],
    *,
    agent: Annotated[str, typer.Option(help="Its agent, as the document's resources name it.", metavar="AGENT")],
    cause: Annotated[
        str, typer.Option(help="The kill's cause: operator, or that of a rule such as loop_guard.", metavar="NAME")
    ] = "operator",
    as_json: AsJson = False,
) -> None:
    """Print what a kill of a session would call, in order, without a call. Exit 1 when that is nothing.

    Example: haltline notify dry-run night-7 --agent cleaner --config notify.yaml
    """
    config = _read(file)
    from haltline.streams.notify.orders import BadValue, example_kill, orders_of

    calls: list[dict[str, Any]] = []
    for order in orders_of(config, example_kill(session_id, agent, cause, time.time_ns() // 1_000_000)):
        try:
            call = order.call()
        except BadValue as bad:
            fail(f"{file}: actuators.{order.name}: {bad}", Exit.USAGE)
        secret = {"authorization": "***"} if "authorization" in call.headers else {}
        if order.actuator.token_file is not None:
            secret = {"authorization": "Bearer ***"}
        signed = {"webhook-signature": "***"} if order.actuator.secret_file is not None else {}
        calls.append(
            {
                "actuator": order.name,
                "disarm": order.actuator.disarm,
                "method": call.method,
                "url": call.url,
                "headers": {**call.headers, **secret, **signed},
                "body": call.body.decode(),
            }
        )
    if as_json:
        print_json(calls)
    for one in () if as_json else calls:
        say(f"{one['actuator']}{' (before the others)' if one['disarm'] else ''}: {one['method']} {one['url']}")
        for line in (*(f"{name}: {value}" for name, value in one["headers"].items()), one["body"]):
            say(f"  {line}")
    if not calls:
        say_error(f"haltline: {file}: no actuator is called for a kill of {session_id} of {agent} by {cause}")
    raise typer.Exit(Exit.OK if calls else Exit.NO)


def _read(file: Path) -> "Config":
    from haltline.streams.notify import channels, notifier  # noqa: F401  # what they need is the extra
    from haltline.streams.notify.config import BadConfig, load_config

    with UsageErrors(BadConfig, OSError):
        return load_config(file)


def _receivers(file: Path, config: "Config") -> "Mapping[str, Receiver]":
    """The receivers of a document, whose secrets can be read."""
    from haltline.streams.notify.channels import receivers_of
    from haltline.streams.notify.links import links_of

    try:
        links_of(config)
        return receivers_of(config)
    except ValueError as error:
        fail(f"{file}: {error}", Exit.USAGE)
