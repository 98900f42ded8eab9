"""`python -m benchmarks capacity FILE`: what a fleet of agents needs, from measured figures.

Everything here is arithmetic: constants come from one document of results, a demand and prices from its
reader. `checks` compares predictions with measurements that are not among the constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

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


def _assumed(value: Any, words: str) -> Any:
    """Declare a field with a default, and its words for tables and options."""
    return field(default=value, metadata={"words": words})


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """The agents' load and the retention, planning limits of a broker, and prices near list prices of large clouds."""

    agents: int = _assumed(100_000, "agents at work at the same time, each with one session")
    events_per_agent_s: float = _assumed(0.1, "events a second of an agent (a call is two)")
    new_sessions_per_agent_day: float = _assumed(4.0, "sessions of an agent in a day")
    sessions_per_process: int = _assumed(20, "sessions in one process of the agents' side")
    utilisation: float = _assumed(0.6, "utilisation of a worker's, sink's or broker's cores at the peak")
    replication: int = _assumed(3, "replicas of each topic")
    events_kept_days: int = _assumed(7, "days for which `actions` is kept")
    outputs_kept_days: int = _assumed(30, "days for which the other topics are kept")
    audit_kept_days: int = _assumed(90, "days for which the audit table is kept")
    broker_written_bytes_s: float = _assumed(50e6, "bytes a second that one broker is planned to write")
    broker_read_bytes_s: float = _assumed(150e6, "bytes a second that one broker is planned to be read")
    broker_cores: int = _assumed(4, "cores of a broker")
    broker_memory_gib: float = _assumed(16.0, "GiB of memory of a broker")
    broker_partitions: int = _assumed(
        4_000, "replicas of partitions, of all topics, that one broker is planned to have"
    )
    read_by_agents_bytes_s: float = _assumed(150e6, "bytes a second that all agents together are planned to read")
    core_hour: float = _assumed(0.04, "dollars for a core and hour")
    gib_hour: float = _assumed(0.005, "dollars for a GiB of memory and hour")
    disk_gb_month: float = _assumed(0.08, "dollars for a GB of disk and month")
    object_gb_month: float = _assumed(0.023, "dollars for a GB of object storage and month")
    traffic_gb: float = _assumed(0.02, "dollars for a GB between availability zones")

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
class Plan:
    """The resources that a demand needs."""

    assumed: Assumptions
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


class Check(NamedTuple):
    """A prediction, and a measurement that is not one of its constants."""

    what: str
    unit: str
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        """Return measured over predicted."""
        return self.measured / self.predicted


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


def workers_for(known: Constants, assumed: Assumptions) -> int:
    """Processes of one core each: rate times processor time, over the utilisation."""
    workers = 1
    while _busy_cores(known, assumed, workers) > workers * assumed.utilisation:
        workers += 1
    return workers


def _busy_cores(known: Constants, assumed: Assumptions, workers: int) -> float:
    per_event_us = interpolated(known.cpu_us_per_event, assumed.kept_sessions / workers)
    return (assumed.events_per_s * per_event_us + assumed.new_sessions_per_s * known.cpu_us_per_new_session) / 1e6


def read_by_agents(known: Constants, assumed: Assumptions, partitions: int) -> float:
    """Bytes per second: each process reads all verdicts of the partitions with its sessions."""
    share = min(1.0, assumed.sessions_per_process / partitions)
    processes = assumed.agents / assumed.sessions_per_process
    return processes * share * assumed.events_per_s * known.verdict_bytes_per_event


def partitions_for(known: Constants, assumed: Assumptions, workers: int) -> int:
    """Three for each worker, and enough to limit the verdicts of others that agents read.

    More partitions help only processes whose sessions are on few of them.
    """
    verdicts = assumed.events_per_s * known.verdict_bytes_per_event
    if verdicts * assumed.agents / assumed.sessions_per_process <= assumed.read_by_agents_bytes_s:
        least: float = 3 * workers
    else:
        least = max(3 * workers, min(assumed.agents * verdicts / assumed.read_by_agents_bytes_s, assumed.agents))
    return math.ceil(least / _PARTITIONS_STEP) * _PARTITIONS_STEP


def plan(known: Constants, assumed: Assumptions) -> Plan:
    """Return the resources that a demand needs, and their cost."""
    workers = workers_for(known, assumed)
    each = assumed.kept_sessions / workers
    partitions = partitions_for(known, assumed, workers)
    events_per_s = assumed.events_per_s
    rows_per_s = events_per_s * (1 + known.output_records_per_event)
    sinks = math.ceil(rows_per_s * known.sink_cpu_us_per_row / 1e6 / assumed.utilisation)
    # An agent acts less often than checkpoints occur, so each event writes its session's state once.
    changelog = events_per_s * known.changelog_bytes_per_record
    published = events_per_s * (known.event_bytes + known.output_bytes_per_event)
    written, by_agents = published + changelog, read_by_agents(known, assumed, partitions)
    read = written * (assumed.replication - 1) + events_per_s * known.event_bytes + published + by_agents
    disk = assumed.replication * (
        events_per_s * known.event_bytes * assumed.events_kept_days * 24 * _HOUR_S
        + events_per_s * known.output_bytes_per_event * assumed.outputs_kept_days * 24 * _HOUR_S
        + 2 * assumed.kept_sessions * known.changelog_bytes_per_record  # compaction starts at half
    )
    brokers = max(
        assumed.replication,
        math.ceil(written * assumed.replication / assumed.broker_written_bytes_s),
        math.ceil(read / assumed.broker_read_bytes_s),
        math.ceil(partitions * _TOPICS * assumed.replication / assumed.broker_partitions),
        math.ceil(
            events_per_s * known.broker_cpu_us_per_event * assumed.replication
            / 1e6 / assumed.utilisation / assumed.broker_cores
        ),
    )  # fmt: skip
    audit = rows_per_s * known.sink_bytes_per_row * assumed.audit_kept_days * 24 * _HOUR_S
    memory = memory_bytes(known, each)
    core, gib = assumed.core_hour * _MONTH_H, assumed.gib_hour * _MONTH_H
    # With a broker in each of three zones, two thirds of clients' traffic cross zones, and all replication.
    across = written * (2 / 3 + assumed.replication - 1) + (read - written * (assumed.replication - 1)) * 2 / 3
    return Plan(
        assumed=assumed,
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
            "brokers": brokers * (assumed.broker_cores * core + assumed.broker_memory_gib * gib),
            "disk": disk / _GB * assumed.disk_gb_month,
            "audit table": audit / _GB * assumed.object_gb_month,
            "traffic between zones": across * _MONTH_H * _HOUR_S / _GB * assumed.traffic_gb,
        },
    )


def checks(document: Document) -> list[Check]:
    """Return predictions beside measurements of the same run that are not among the constants."""
    known = constants(document)
    found: list[Check] = []
    for point in document["growth"]:
        workers, sessions = point["workers"], point["sessions"]
        each = sessions / workers
        name = f"{workers} worker{'s' * (workers > 1)}, {sessions:,} sessions"
        if workers > 1 or sessions > 10 * _MANY:
            predicted = interpolated(known.cpu_us_per_event, each)
            found.append(Check(name, "us/event", predicted, point["cpu_us_per_event"]))
        if workers > 1 or sessions > _MANY:
            predicted = workers * memory_bytes(known, each) / 2**20
            found.append(Check(name, "MiB", predicted, point["rss_bytes"] / 2**20))
        if workers == 1 and sessions > _MANY and point["cpu_us_per_new_session"]:
            found.append(Check(name, "us/new session", known.cpu_us_per_new_session, point["cpu_us_per_new_session"]))
        if point["events_per_s"]:
            predicted = 1e6 * workers / interpolated(known.cpu_us_per_event, each)
            found.append(Check(name, "events/s", predicted, point["events_per_s"]))
    return found
