"""`haltline doctor`: checks this machine and the cluster, and names a remedy for each problem."""

import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from haltline.cli.audit_table import AuditGroup
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, option_of, print_json
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from haltline.streams.operator.health_checks import CommandReport

_RUN: Final = {"worker": "worker", "sink": "audit", "console": "console"}
"""The commands that start the processes."""


def _report(name: str, url: str) -> "tuple[str, CommandReport]":
    from haltline.streams.operator.health_checks import ask

    return name, ask(f"{url}/healthz")


@with_cluster("group")
def doctor(
    *,
    at: Cluster,
    agent: Annotated[str, typer.Option(help="Principal of the agents.", metavar="PRINCIPAL")] = "User:agent",
    worker: Annotated[str, option_of("doctor.worker", metavar="URL")] = "http://127.0.0.1:9464",
    sink: Annotated[
        str, option_of("doctor.sink", help="URL of an audit sink's /healthz.", metavar="URL")
    ] = "http://127.0.0.1:9465",
    canary: Annotated[str, option_of("doctor.canary", metavar="URL")] = "http://127.0.0.1:9466",
    at_console: Annotated[str, option_of("doctor.console", "--console", metavar="URL")] = "http://127.0.0.1:8460",
    intake: Annotated[str, option_of("doctor.intake", metavar="URL")] = "http://127.0.0.1:8765",
    audit_group: AuditGroup = "",
    as_json: AsJson = False,
) -> None:
    """Check machine, broker, topics, permissions, lag, clocks, policy, usage and every process.

    A line about a problem names its remedy; `haltline config show` prints the settings. Exit 1 for a problem; a
    missing part that is not always needed is a note.

    Example: haltline doctor --bootstrap kafka-1:9092
    """
    from haltline.cli.operator.machine_and_cluster import cluster, machine
    from haltline.streams.operator.health_checks import Verdict, at_once, clocks, health, usage
    from haltline.streams.operator.health_checks import canary as last_canary
    from haltline.streams.operator.health_checks import intake as intake_health

    urls = {"worker": worker.rstrip("/"), "sink": sink.rstrip("/"), "console": at_console.rstrip("/")}
    start = {name: f"start one (haltline {run}), or give its address (--{name})" for name, run in _RUN.items()}
    parts = at_once(
        lambda: list(machine()),
        lambda: list(cluster(at, agent, sinks=audit_group)),
        lambda: list(health("worker", urls["worker"], needed=True, do=start["worker"])),
        lambda: [usage(urls["worker"])],
        lambda: list(health("sink", urls["sink"], needed=False, do=start["sink"])),
        lambda: list(health("console", urls["console"], needed=False, do=start["console"])),
        lambda: [intake_health(intake.rstrip("/"))],
        lambda: [clocks(dict(at_once(*(partial(_report, name, url) for name, url in urls.items()))))],
        lambda: [last_canary(canary.rstrip("/"), time.time())],
    )
    checks = [check for part in parts for check in part]
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        style = {Verdict.OK: "green", Verdict.BAD: "red", Verdict.NOTE: "yellow"}
        print_table(
            ("result", "check", "found", "what to do"),
            ((check.verdict, check.what, check.found, check.do) for check in checks),
            first_style=[style[check.verdict] for check in checks],
        )
    if any(check.verdict is Verdict.BAD for check in checks):
        raise typer.Exit(Exit.NO)
