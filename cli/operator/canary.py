"""`haltline canary`: prove that a runaway would be stopped, now or every few minutes."""

import time
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    Exit,
    MetricsHost,
    MetricsPort,
    duration,
    fail,
    option_of,
    print_json,
    say,
    say_error,
)

if TYPE_CHECKING:
    from haltline.streams.operator.canary import Flight
    from haltline.streams.runtime.metrics import Metrics


@with_cluster()
def canary(
    *,
    every: Annotated[
        timedelta | None,
        typer.Option(help="Repeat at this interval until Ctrl-C. Default: run once.", parser=duration, metavar="TIME"),
    ] = None,
    within: Annotated[
        timedelta,
        typer.Option(help="How long it may take, including the acknowledgement.", parser=duration, metavar="TIME"),
    ] = timedelta(seconds=10),
    verify_key: Annotated[
        str | None,
        option_of(
            "agent.verify_key",
            help="The workers' public keys, separated as in PATH: records that they did not sign are ignored.",
        ),
    ] = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = 9466,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Run a test session that must be killed; check that it is, and that the stop is acknowledged.

    No tool is executed, and nothing stays killed. Exit 0 when it was stopped, 1 when it was not. With --every it
    repeats until Ctrl-C, with its results on /metrics (deploy/prometheus has an alert on them) and, with --json, one
    object per line.

    Example: haltline canary

    Example: haltline canary --every 5m --within 10s
    """
    from haltline.cli.operator.repeating import repeat
    from haltline.streams.runtime.metrics import Metrics

    metrics = Metrics("canary")

    def once() -> "Flight | None":
        flight = _fly(at, within, verify_key, every)
        _count(metrics, flight)
        _show(flight, as_json=as_json, on_one_line=every is not None)
        return flight

    if every is not None:
        repeat("canary", every, once, metrics, (metrics_host, metrics_port))
    flight = once()
    raise typer.Exit(Exit.OK if flight is not None and flight.well else Exit.NO)


def _fly(at: Cluster, within: timedelta, verify_key: str | None, every: timedelta | None) -> "Flight | None":
    from haltline.streams.kafka.log_reader import Unreachable
    from haltline.streams.operator.canary import fly

    every_s = None if every is None else every.total_seconds()
    try:
        return fly(
            at.bootstrap,
            at.topics,
            within_s=within.total_seconds(),
            client=at.client_config,
            verify_key=verify_key,
            every_s=every_s,
        )
    except ValueError as wrong:
        fail(wrong, Exit.USAGE)
    except Unreachable as failed:
        if every is None:
            raise
        say_error(f"haltline: {failed}")
        return None


def _count(metrics: "Metrics", flight: "Flight | None") -> None:
    well = flight is not None and flight.well
    metrics.counter("canary_flights_total").labels("stopped" if well else "failed").inc()
    metrics.gauge("canary_up").set(1 if well else 0)
    metrics.gauge("canary_last_flight_timestamp_seconds").set(time.time())
    for result in ("stopped", "failed"):
        metrics.counter("canary_flights_total").labels(result).inc(0)
    if flight is not None and well:
        metrics.gauge("canary_seconds").set(flight.seconds)


def _show(flight: "Flight | None", *, as_json: bool, on_one_line: bool) -> None:
    if flight is None:
        return
    if as_json:
        print_json({**asdict(flight), "well": flight.well}, on_one_line=on_one_line)
    elif flight.well:
        took = "" if flight.time_to_stop_ms is None else f", {flight.time_to_stop_ms} ms from the decision to the stop"
        say(f"stopped at call {flight.attempts}, acknowledged after {flight.seconds:.2f} s{took}")
    else:
        say_error(f"haltline: canary {flight.session_id}: {flight.problem}")
