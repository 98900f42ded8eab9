"""The tables of capacity: constants, checks, and the worked plan, as `benchmarks.reporting.capacity` computes them."""

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from benchmarks.reporting.capacity import (
    LIVE_SESSIONS,
    Assumptions,
    Plan,
    TooFewFigures,
    checks,
    constants,
    plan,
)
from benchmarks.reporting.report import Document
from benchmarks.reporting.table import Table, mib, us


def constants_table(document: Document) -> Table:
    """The measured constants of one worker, one sink and the broker."""
    known = constants(document)
    per_event = [[f"c: worker, CPU per event, {at:,.0f} sessions", us(value)] for at, value in known.cpu_us_per_event]
    rows = [
        *per_event,
        ["n: worker, CPU per new session", us(known.cpu_us_per_new_session)],
        ["m0: memory of a worker without sessions", mib(known.empty_rss_bytes)],
        ["m: memory per session, as an object", mib(known.live_bytes_per_session)],
        [f"k: memory per session beyond {LIVE_SESSIONS:,} of a worker, as bytes", mib(known.kept_bytes_per_session)],
        ["s: changelog, bytes per record", mib(known.changelog_bytes_per_record)],
        ["changelog records per event, measured at full speed", f"{known.changelog_records_per_event:.2f}"],
        ["e: size of an event", mib(known.event_bytes)],
        ["o: records published per event, every proposal awaits its verdict", f"{known.output_records_per_event:.2f}"],
        ["p: bytes published per event", mib(known.output_bytes_per_event)],
        ["v: of them read by agents", mib(known.verdict_bytes_per_event)],
        ["b: broker, CPU per event", us(known.broker_cpu_us_per_event)],
        ["w: sink, CPU per row", us(known.sink_cpu_us_per_row)],
        ["a: sink, bytes per row", mib(known.sink_bytes_per_row)],
        ["memory of a sink", mib(known.sink_rss_bytes)],
        ["start of a worker, per 100,000 sessions", f"{known.recovery_s_per_session * 100_000:.1f} s"],
    ]
    return Table("Constants of capacity", ["constant", "measured"], rows)


def checks_table(document: Document) -> Table:
    """Predictions compared with measurements."""
    rows = [
        [check.what, check.unit, f"{check.predicted:,.0f}", f"{check.measured:,.0f}", f"{check.ratio:.2f}"]
        for check in checks(document)
    ]
    return Table("Checks of capacity", ["configuration", "unit", "predicted", "measured", "measured / predicted"], rows)


def plan_table(found: Plan) -> Table:
    """The resources that a demand needs, and their cost."""
    demand = found.assumed
    rows = [
        ["events a second", f"{demand.events_per_s:,.0f}"],
        ["sessions in memory and changelog", f"{demand.kept_sessions:,.0f}"],
        ["CPU per event with the sessions of one worker", us(found.cpu_us_per_event)],
        ["workers, one core each", f"{found.workers:,}"],
        ["memory of each worker", mib(found.worker_memory_bytes)],
        ["start of a worker after a failure", f"{found.recovery_s:,.0f} s"],
        ["partitions", f"{found.partitions:,}"],
        ["audit rows a second", f"{found.rows_per_s:,.0f}"],
        ["audit sinks, one core each", f"{found.sinks:,}"],
        ["changelog", f"{mib(found.changelog_bytes_per_s)} a second"],
        ["written to Kafka before replication", f"{mib(found.written_bytes_per_s)} a second"],
        ["read by agents", f"{mib(found.read_by_agents_bytes_s)} a second"],
        ["brokers", f"{found.brokers:,}"],
        ["disk of all brokers", mib(found.disk_bytes)],
        ["audit table", mib(found.audit_bytes)],
        *([f"dollars a month: {part}", f"{dollars:,.0f}"] for part, dollars in found.dollars.items()),
        ["dollars a month", f"{found.dollars_a_month:,.0f}"],
        ["dollars a month for 1,000 agents", f"{found.dollars_a_month / demand.agents * 1000:,.0f}"],
    ]
    return Table(f"A plan for {demand.agents:,} agents", ["what", "needed"], rows)


def assumptions_table(assumed: Assumptions) -> Table:
    """The assumptions that are not measured."""
    rows = [[one.metadata["words"], f"{getattr(assumed, one.name):,.10g}"] for one in fields(assumed)]
    return Table("Assumptions", ["assumption", "value"], rows)


def _if_measured(make: Callable[[Document], Table]) -> Callable[[Document], Table]:
    def made(document: Document) -> Table:
        try:
            return make(document)
        except TooFewFigures:
            return Table("", (), (), ())

    return made


CAPACITY_TABLES: Final = {
    "constants": _if_measured(constants_table),
    "checks": _if_measured(checks_table),
    "plan": _if_measured(lambda document: plan_table(plan(constants(document), Assumptions()))),
    "assumptions": lambda _document: assumptions_table(Assumptions()),
}
"""By the name of the mark in a page."""
