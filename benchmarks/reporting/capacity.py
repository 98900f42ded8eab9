"""`python -m benchmarks capacity FILE`: what a fleet of agents needs, from measured figures.

Everything here is arithmetic: constants come from one document of results, a demand and prices from its
reader. `checks` compares predictions with measurements that are not among the constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from benchmarks.reporting.report import Document
from benchmarks.sink import OURS as SINK
from haltline.schemas.topics import LAYOUT
from haltline.streams.sessions.processor import MAX_LIVE_SESSIONS

LIVE_SESSIONS: Final = MAX_LIVE_SESSIONS
"""Sessions that one worker keeps as objects; it keeps the others as bytes."""
_FEW, _MANY = 1_000, 10_000
"""Sessions of the two measurements whose difference gives the memory of a session, with many events in each."""
_HOUR_S: Final = 3_600
_MONTH_H: Final = 730
_GB: Final = 1e9
_GIB: Final = 2**30
_PARTITIONS_STEP: Final = 12
_TOPICS: Final = len(LAYOUT) + 1
"""Topics including the changelog; all have the same number of partitions."""

Curve = tuple[tuple[float, float], ...]
"""Measured points, by sessions of a worker."""


class TooFewFigures(ValueError):
    """Raised for a document without a figure that the constants need; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Constants of one machine. Processor time is in microseconds of one core, with every default rule."""

    cpu_us_per_event: Curve
    cpu_us_per_new_session: float
    empty_rss_bytes: float
    """Memory of a worker without sessions."""
    live_bytes_per_session: float
    kept_bytes_per_session: float
    """Memory of a session kept as bytes: beyond LIVE_SESSIONS, or after a start."""
    changelog_bytes_per_record: float
    changelog_records_per_event: float
    event_bytes: float
    output_records_per_event: float
    output_bytes_per_event: float
    verdict_bytes_per_event: float
    broker_cpu_us_per_event: float
    sink_cpu_us_per_row: float
    sink_bytes_per_row: float
    sink_rss_bytes: float
    recovery_s_per_session: float


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The load of the agents, and the retention."""

    agents: int = 100_000
    """Agents at work at the same time, each with one session."""
    events_per_agent_s: float = 0.1
    new_sessions_per_agent_day: float = 4.0
    sessions_per_process: int = 20
    """Sessions in a process of the agents' side, which reads the partitions of its sessions."""
    utilisation: float = 0.6
    """Share of a core used at the peak; the rest is for recovery, rebalances and bursts."""
    replication: int = 3
    events_kept_days: int = 7
    outputs_kept_days: int = 30
    audit_kept_days: int = 90

    @property
    def events_per_s(self) -> float:
        return self.agents * self.events_per_agent_s

    @property
    def new_sessions_per_s(self) -> float:
        return self.agents * self.new_sessions_per_agent_day / 86_400

    @property
    def kept_sessions(self) -> float:
        """Return the sessions of a day: an idle session leaves memory and changelog after that time."""
        return self.agents * max(1.0, self.new_sessions_per_agent_day)


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices in dollars: assumptions, near list prices of large clouds."""

    core_hour: float = 0.04
    gib_hour: float = 0.005
    disk_gb_month: float = 0.08
    object_gb_month: float = 0.023
    traffic_gb: float = 0.02
    """Traffic between availability zones, both directions together."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Planning limits of one Kafka broker: assumptions."""

    broker_written_bytes_s: float = 50e6
    broker_read_bytes_s: float = 150e6
    broker_cores: int = 4
    broker_memory_gib: float = 16.0
    broker_partitions: int = 4_000
    """Replicas of partitions, of all topics."""
    read_by_agents_bytes_s: float = 150e6
    """All agents together; more partitions reduce the records of others that each process reads."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The resources that a demand needs."""

    demand: Demand
    cpu_us_per_event: float
    workers: int
    worker_memory_bytes: float
    recovery_s: float
    """Seconds to recover the sessions of one worker."""
    partitions: int
    sinks: int
    brokers: int
    rows_per_s: float
    changelog_bytes_per_s: float
    written_bytes_per_s: float
    """Bytes per second written by all clients, before replication."""
    read_by_agents_bytes_s: float
    disk_bytes: float
    """Disk of all brokers, in bytes."""
    audit_bytes: float
    dollars: dict[str, float]
    """Dollars per month, by part."""

    @property
    def dollars_a_month(self) -> float:
        return sum(self.dollars.values())


@dataclass(frozen=True, kw_only=True)
class Check:
    """A prediction, and a measurement that is not one of its constants."""

    what: str
    unit: str
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        """Return measured over predicted."""
        return self.measured / self.predicted


def constants(document: Document) -> Constants:
    """Return the constants of a run. Raises TooFewFigures."""
    single = {point["sessions"]: point for point in document["growth"] if point["workers"] == 1}
    sink = next((row for row in document["sink"] if row["engine"] == SINK and row["cpu_us_per_row"]), None)
    if not {_FEW, _MANY} <= single.keys() or sink is None:
        raise TooFewFigures(
            f"expected growth of one worker with {_FEW:,} and {_MANY:,} sessions and a sink, "
            f"got growth with {sorted(single)} and {'no' if sink is None else 'a'} sink"
        )
    few, many = single[_FEW], single[_MANY]
    largest = single[max(single)]
    done = many["sessions"] + many["events"]
    between = _MANY - _FEW
    return Constants(
        cpu_us_per_event=tuple((float(n), single[n]["cpu_us_per_event"]) for n in sorted(single) if n <= 10 * _MANY),
        cpu_us_per_new_session=many["cpu_us_per_new_session"],
        empty_rss_bytes=few["rss_bytes"] - _FEW * (many["rss_bytes"] - few["rss_bytes"]) / between,
        live_bytes_per_session=(many["rss_bytes"] - few["rss_bytes"]) / between,
        kept_bytes_per_session=(many["recovered_rss_bytes"] - few["recovered_rss_bytes"]) / between,
        changelog_bytes_per_record=many["changelog_bytes"] / many["changelog_records"],
        changelog_records_per_event=many["changelog_records"] / done,
        event_bytes=many["event_bytes"],
        output_records_per_event=many["output_records"] / done,
        output_bytes_per_event=many["output_bytes"] / done,
        verdict_bytes_per_event=many["verdict_bytes"] / done,
        broker_cpu_us_per_event=many["broker_cpu_us_per_event"],
        sink_cpu_us_per_row=sink["cpu_us_per_row"],
        sink_bytes_per_row=sink["bytes_written"] / sink["rows"],
        sink_rss_bytes=sink["peak_rss_bytes"] or 0,
        recovery_s_per_session=max(0.0, largest["recovery_s"]) / largest["sessions"],
    )


def interpolated(curve: Sequence[tuple[float, float]], at: float) -> float:
    """Interpolate between measured points by the logarithm of `at`; beyond them, the nearest point's value."""
    points = sorted(curve)
    if at <= points[0][0]:
        return points[0][1]
    for (low, below), (high, above) in pairwise(points):
        if at <= high:
            share = math.log(at / low) / math.log(high / low)
            return below + share * (above - below)
    return points[-1][1]


def memory_bytes(known: Constants, sessions: float) -> float:
    """Return the memory of one worker with this many sessions, in bytes."""
    live = min(sessions, LIVE_SESSIONS)
    kept = sessions - live
    return known.empty_rss_bytes + live * known.live_bytes_per_session + kept * known.kept_bytes_per_session


def workers_for(known: Constants, demand: Demand) -> int:
    """Processes of one core each: rate times processor time, over the utilisation."""
    workers = 1
    while _busy_cores(known, demand, workers) > workers * demand.utilisation:
        workers += 1
    return workers


def _busy_cores(known: Constants, demand: Demand, workers: int) -> float:
    per_event_us = interpolated(known.cpu_us_per_event, demand.kept_sessions / workers)
    return (demand.events_per_s * per_event_us + demand.new_sessions_per_s * known.cpu_us_per_new_session) / 1e6


def read_by_agents(known: Constants, demand: Demand, partitions: int) -> float:
    """Bytes per second: each process reads all verdicts of the partitions with its sessions."""
    share = min(1.0, demand.sessions_per_process / partitions)
    processes = demand.agents / demand.sessions_per_process
    return processes * share * demand.events_per_s * known.verdict_bytes_per_event


def partitions_for(known: Constants, demand: Demand, limits: Limits, workers: int) -> int:
    """Three for each worker, and enough to limit the verdicts of others that agents read.

    More partitions help only processes whose sessions are on few of them.
    """
    verdicts = demand.events_per_s * known.verdict_bytes_per_event
    if verdicts * demand.agents / demand.sessions_per_process <= limits.read_by_agents_bytes_s:
        least: float = 3 * workers
    else:
        least = max(3 * workers, min(demand.agents * verdicts / limits.read_by_agents_bytes_s, demand.agents))
    return math.ceil(least / _PARTITIONS_STEP) * _PARTITIONS_STEP


def plan(known: Constants, demand: Demand, prices: Prices, limits: Limits) -> Plan:
    """Return the resources that a demand needs, and their cost."""
    workers = workers_for(known, demand)
    each = demand.kept_sessions / workers
    partitions = partitions_for(known, demand, limits, workers)
    events_per_s = demand.events_per_s
    rows_per_s = events_per_s * (1 + known.output_records_per_event)
    sinks = math.ceil(rows_per_s * known.sink_cpu_us_per_row / 1e6 / demand.utilisation)
    # An agent acts less often than checkpoints occur, so each event writes its session's state once.
    changelog = events_per_s * known.changelog_bytes_per_record
    published = events_per_s * (known.event_bytes + known.output_bytes_per_event)
    written, by_agents = published + changelog, read_by_agents(known, demand, partitions)
    read = written * (demand.replication - 1) + events_per_s * known.event_bytes + published + by_agents
    disk = demand.replication * (
        events_per_s * known.event_bytes * demand.events_kept_days * 24 * _HOUR_S
        + events_per_s * known.output_bytes_per_event * demand.outputs_kept_days * 24 * _HOUR_S
        + 2 * demand.kept_sessions * known.changelog_bytes_per_record  # compaction starts at half
    )
    brokers = max(
        demand.replication,
        math.ceil(written * demand.replication / limits.broker_written_bytes_s),
        math.ceil(read / limits.broker_read_bytes_s),
        math.ceil(partitions * _TOPICS * demand.replication / limits.broker_partitions),
        math.ceil(
            events_per_s * known.broker_cpu_us_per_event * demand.replication
            / 1e6 / demand.utilisation / limits.broker_cores
        ),
    )  # fmt: skip
    audit = rows_per_s * known.sink_bytes_per_row * demand.audit_kept_days * 24 * _HOUR_S
    memory = memory_bytes(known, each)
    core, gib = prices.core_hour * _MONTH_H, prices.gib_hour * _MONTH_H
    # With a broker in each of three zones, two thirds of clients' traffic cross zones, and all replication.
    across = written * (2 / 3 + demand.replication - 1) + (read - written * (demand.replication - 1)) * 2 / 3
    return Plan(
        demand=demand,
        cpu_us_per_event=interpolated(known.cpu_us_per_event, each),
        workers=workers,
        worker_memory_bytes=memory,
        recovery_s=each * known.recovery_s_per_session,
        partitions=partitions,
        sinks=sinks,
        brokers=brokers,
        rows_per_s=rows_per_s,
        changelog_bytes_per_s=changelog,
        written_bytes_per_s=written,
        read_by_agents_bytes_s=by_agents,
        disk_bytes=disk,
        audit_bytes=audit,
        dollars={
            "workers": workers * (core + gib * memory / _GIB),
            "sinks": sinks * (core + gib * known.sink_rss_bytes / _GIB),
            "brokers": brokers * (limits.broker_cores * core + limits.broker_memory_gib * gib),
            "disk": disk / _GB * prices.disk_gb_month,
            "audit table": audit / _GB * prices.object_gb_month,
            "traffic between zones": across * _MONTH_H * _HOUR_S / _GB * prices.traffic_gb,
        },
    )


def checks(document: Document) -> list[Check]:
    """Return predictions beside measurements of the same run that are not among the constants."""
    known = constants(document)
    found = []
    for point in document["growth"]:
        workers, sessions = point["workers"], point["sessions"]
        each = sessions / workers
        name = f"{workers} worker{'s' * (workers > 1)}, {sessions:,} sessions"
        if workers > 1 or sessions > 10 * _MANY:
            predicted = interpolated(known.cpu_us_per_event, each)
            found.append(_check(name, "us/event", predicted, point["cpu_us_per_event"]))
        if workers > 1 or sessions > _MANY:
            predicted = workers * memory_bytes(known, each) / 2**20
            found.append(_check(name, "MiB", predicted, point["rss_bytes"] / 2**20))
        if workers == 1 and sessions > _MANY and point["cpu_us_per_new_session"]:
            found.append(_check(name, "us/new session", known.cpu_us_per_new_session, point["cpu_us_per_new_session"]))
        if point["events_per_s"]:
            predicted = 1e6 * workers / interpolated(known.cpu_us_per_event, each)
            found.append(_check(name, "events/s", predicted, point["events_per_s"]))
    return found


def _check(what: str, unit: str, predicted: float, measured: float) -> Check:
    return Check(what=what, unit=unit, predicted=predicted, measured=measured)
