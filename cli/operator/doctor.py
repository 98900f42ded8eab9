"""`haltline doctor`: checks this machine and the cluster, and names a remedy for each problem."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditGroup, AuditTable, StorageOption, options_of
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, option_of, print_json
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from haltline.streams.operator.health_checks import Check


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
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    audit_group: AuditGroup = "",
    as_json: AsJson = False,
) -> None:
    """Check machine, broker, topics, permissions, lag, clocks, policy, usage, sessions and every process.

    A line about a problem names its remedy; `haltline config show` prints the settings. Exit 1 for a problem; a
    missing part that is not always needed is a note.

    Example: haltline doctor --bootstrap kafka-1:9092
    """
    from haltline.cli.operator.machine_and_cluster import cluster, machine
    from haltline.streams.operator.health_checks import Verdict, ask, clocks, health, usage
    from haltline.streams.operator.health_checks import canary as last_canary
    from haltline.streams.operator.health_checks import intake as intake_health

    urls = {"worker": worker.rstrip("/"), "sink": sink.rstrip("/"), "console": at_console.rstrip("/")}
    of_machine = list(machine())
    checks = [
        *of_machine,
        *cluster(at, agent, sinks=audit_group),
        *health(
            "worker", urls["worker"], needed=True, do="start one (haltline worker), or give its address (--worker)"
        ),
        usage(urls["worker"]),
        *health("sink", urls["sink"], needed=False, do="start one (haltline audit), or give its address (--sink)"),
        *health(
            "console", urls["console"], needed=False, do="start one (haltline console), or give its address (--console)"
        ),
        intake_health(intake.rstrip("/")),
        *_sessions(table, options_of(storage_option), of_machine),
        clocks({name: ask(f"{url}/healthz") for name, url in urls.items()}),
        last_canary(canary.rstrip("/"), time.time()),
    ]
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


def _sessions(table: str, options: dict[str, str], of_machine: Sequence["Check"]) -> Iterator["Check"]:
    """The number of sessions in the audit table; nothing if packages for it are missing, which a check reports."""
    if all(check.verdict == "ok" for check in of_machine if check.what == "packages of the processor"):
        from haltline.streams.learning.available_sessions import calibration_sessions

        yield calibration_sessions(table, options)
